"""The verbs of the grammar, as tables; the notation is that of lexicon.py."""

# French irregular presents (je tu il nous vous ils) and participle; the regular groups are rules in french.py.
IRREGULAR = """
    être suis es est sommes êtes sont été
    avoir ai as a avons avez ont eu
    aller vais vas va allons allez vont allé
    faire fais fais fait faisons faites font fait
    voir vois vois voit voyons voyez voient vu
    vouloir veux veux veut voulons voulez veulent voulu
    pouvoir peux peux peut pouvons pouvez peuvent pu
    devoir dois dois doit devons devez doivent dû
    savoir sais sais sait savons savez savent su
    boire bois bois boit buvons buvez boivent bu
    lire lis lis lit lisons lisez lisent lu
    écrire écris écris écrit écrivons écrivez écrivent écrit
    décrire décris décris décrit décrivons décrivez décrivent décrit
    dormir dors dors dort dormons dormez dorment dormi
    sortir sors sors sort sortons sortez sortent sorti
    partir pars pars part partons partez partent parti
    servir sers sers sert servons servez servent servi
    courir cours cours court courons courez courent couru
    venir viens viens vient venons venez viennent venu
    revenir reviens reviens revient revenons revenez reviennent revenu
    tenir tiens tiens tient tenons tenez tiennent tenu
    ouvrir ouvre ouvres ouvre ouvrons ouvrez ouvrent ouvert
    offrir offre offres offre offrons offrez offrent offert
    connaître connais connais connaît connaissons connaissez connaissent connu
    prendre prends prends prend prenons prenez prennent pris
    apprendre apprends apprends apprend apprenons apprenez apprennent appris
    comprendre comprends comprends comprend comprenons comprenez comprennent compris
    mettre mets mets met mettons mettez mettent mis
    suivre suis suis suit suivons suivez suivent suivi
    peindre peins peins peint peignons peignez peignent peint
    construire construis construis construit construisons construisez construisent construit
    conduire conduis conduis conduit conduisons conduisez conduisent conduit
    recevoir reçois reçois reçoit recevons recevez reçoivent reçu
    rire ris ris rit rions riez rient ri
    sourire souris souris sourit sourions souriez sourient souri
    appartenir appartiens appartiens appartient appartenons appartenez appartiennent appartenu
    souvenir souviens souviens souvient souvenons souvenez souviennent souvenu
    croire crois crois croit croyons croyez croient cru
"""
WITH_ETRE = "aller venir retourner revenir arriver rester sortir entrer tomber monter"
IMPERFECT = {"être": "étais étais était étions étiez étaient", "avoir": "avais avais avait avions aviez avaient"}

# english[/past[/participle]] french | subjects | objects [| flags]. `state`: no past, no progressive; `generic`: one
# likes cats in general (les chats) but sees some of them (des chats); `count`: may take a number of things; `some`: may
# take some of them (des), or none (pas de); `the`: takes a definite object; `many`: takes a plural.
TRANSITIVE = """
    eat/ate/eaten manger | people pet | edible | count some
    drink/drank/drunk boire | people cat dog horse | drink | some
    buy/bought acheter | people | edible drink goods | count some
    sell/sold vendre | worker man woman kin | edible drink goods | count some
    cut/cut couper | people | snack vegetable bread cheese meat ham butter | the
    prepare préparer | people | cake omelette pie pancake sandwich soup salad tea coffee meat fish rice | some
    wash laver | people | clothes tableware fruit vegetable vehicle window dog
    wear/wore/worn porter | people | hat coat shirt dress skirt scarf jacket sweater ring
    read/read lire | people | text story | some
    write/wrote/written écrire | people | text story song answer | some
    find/found trouver | people | portable mushroom pet | count some
    lose/lost perdre | people | stationery small toy bag suitcase clothes phone | the
    look_for chercher | people | portable pet building friend | some
    see/saw/seen voir | being | anything | count some
    look_at regarder | people pet | anything film
    hear/heard entendre | people pet | being train plane bus radio piano violin trumpet song | some
    listen_to écouter | people | singer musician teacher radio concert bird story song piano violin | the
    like aimer | people | being edible drink clothes instrument film song | generic state
    love adorer | people | being edible drink flower instrument film song | generic state
    hate détester | people | insect snake mouse wolf edible drink meeting | generic state
    know/knew/known connaître | people | people building city village story song | state the
    meet/met rencontrer | people | people
    help aider | people | people
    visit visiter | people | museum castle church city village farm factory school hospital tower island
    invite inviter | people | people
    wait_for attendre | people dog | people bus train taxi plane letter answer
    follow suivre | being | people pet duck beast road river | the
    feed/fed nourrir | people | pet fowl horse cow pig goat donkey monkey baby | the
    draw/drew/drawn dessiner | people | animal house castle tree flower mountain boat map | some
    paint peindre | people | door window wall house chair table boat flower | the
    break/broke/broken casser | people cat | bottle glass cup plate toy mirror window lamp clock chair phone
    repair réparer | worker man woman kin | vehicle machine toy furniture door window wall bridge
    tidy ranger | people | room desk shelf container notebook clothes | the
    open ouvrir | people | opening container bottle letter gift book shop
    close fermer | people | opening container bottle book shop | the
    choose/chose/chosen choisir | people | snack clothes text toy instrument furniture vehicle flower gift
    forget/forgot/forgotten oublier | people | stationery small bag suitcase clothes phone lesson answer word | the
    bring/brought apporter | people | text stationery small snack drink bread cheese basket chair | some
    take/took/taken prendre | people | bus train taxi plane umbrella bag key coat photo
    build/built construire | people | house castle bridge wall tower boat shelf | some
    hide/hid/hidden cacher | people dog | key ring letter gift toy box photo map egg
    throw/threw/thrown lancer | people | ball
    catch/caught attraper | people cat fox | ball mouse butterfly bird rabbit frog thief
    push pousser | people | chair table car door armchair bike | the
    pull tirer | people horse donkey | boat suitcase table | the
    photograph photographier | people | being place nature flower | some
    admire admirer | people | hero singer actress painter writer bird horse castle church mountain lake garden | the
    finish finir | people | text cake soup lesson sandwich | the
    begin/began/begun commencer | people | book letter poem lesson journey | the
    learn apprendre | people | lesson poem song word
    understand/understood comprendre | people | teacher doctor lesson question answer story text word | state the
    use utiliser | people | stationery tableware machine umbrella oil butter map
    receive recevoir | people | letter gift flower answer newspaper ticket | count some
    rent louer | people | car bike boat house truck | some
    fill remplir | people | bottle glass cup basket box bag suitcase | the
    protect protéger | people dog bear | child baby kitten puppy house garden | the
    drive/drove/driven conduire | people | car bus truck taxi train
    carry porter | people | bag suitcase box basket chair table baby
    want vouloir | people | snack food drink clothes toy pet vehicle instrument | state some
    show/showed/shown montrer | people | photo map ring letter book garden house bedroom road
    count compter | people | bird duck hen fruit egg book key tree boat chair | many
    serve servir | waiter hairdresser farmer baker kin | soup coffee tea wine fish meat cake omelette
    steal/stole/stolen voler | thief man soldier monkey fox | fruit egg ring bag car bike key sausage | some
    thank remercier | people | people | the
    call appeler | people | people pet | the
    kiss embrasser | people | kin baby child | the
    greet saluer | people | people | the
    tell/told raconter | people | story secret
    sign signer | people | letter | the
    organise organiser | people | party meeting concert match journey
"""

# english[/past[/participle]] french | subjects | adverbs of manner it goes with.
INTRANSITIVE = """
    sleep/slept dormir | people pet beast fowl | well badly a_lot too_much
    run/ran/run courir | people pet beast | quickly a_lot
    walk marcher | people pet beast duck hen goose | quickly slowly a_lot
    dance danser | people | well badly together a_lot
    sing/sang/sung chanter | people bird rooster parrot | well badly together loudly
    swim/swam/swum nager | people dog duck swan goose frog turtle elephant | well quickly slowly
    laugh rire | people | a_lot together loudly too_much
    cry pleurer | people | a_lot
    smile sourire | people |
    work travailler | people horse donkey | well a_lot together too_much quickly slowly
    speak/spoke/spoken parler | people parrot | well quickly slowly loudly too_much a_lot
    play jouer | child boy girl baby kin pet | well together a_lot
    travel voyager | people | a_lot together
    jump sauter | child boy girl pet frog horse squirrel monkey goat |
    cook cuisiner | people | well badly together a_lot
    study étudier | student boy girl child kin | well a_lot together
    shout crier | people | loudly together
    dream rêver | people pet | a_lot too_much
    fly/flew/flown voler | bird owl duck parrot goose swan butterfly bee | quickly slowly
    wait attendre | people dog | together
    smoke fumer | man woman worker kin | a_lot too_much
    rest se_reposer | people pet horse | well
    wake_up/woke_up/woken_up se_réveiller | people pet | slowly
    get_up/got_up se_lever | people pet | slowly quickly
    get_dressed/got_dressed se_habiller | people | quickly slowly
    hurry se_dépêcher | people |
    hide/hid/hidden se_cacher | child boy girl pet mouse fox squirrel hedgehog | well quickly
    go_to_bed/went_to_bed/gone_to_bed se_coucher | people dog |
    go_for_a_walk/went_for_a_walk/gone_for_a_walk se_promener | people | together
"""
# english[/past[/participle]] french | english and french preposition | subjects | places; conjugated with être.
MOTION = """
    go/went/gone aller | to à | people | destination
    come/came/come venir | to à | people | destination
    return retourner | to à | people | destination
    come_back/came_back/come_back revenir | from de | people | destination
    arrive arriver | at à | people | destination
    stay rester | at à | people | hotel hospital school farm castle library beach station airport market museum
    come_out/came_out/come_out sortir | of de | people pet | building room forest
    enter entrer | - dans | people pet | building room forest garden park
    fall/fell/fallen tomber | into dans | people pet | river lake pool
"""
# The same columns for verbs whose object needs a preposition on one side at least, and flags as above.
PREPOSITIONAL = """
    speak/spoke/spoken parler | to à | people | people
    think/thought penser | about à | people | people journey meeting | state
    obey obéir | - à | child boy girl soldier dog horse | mother father king queen teacher
    dream rêver | of de | people | journey horse island castle bike
    smile sourire | at à | people | people
    belong appartenir | to à | object vehicle house | people | state
    play jouer | with avec | child boy girl baby pet | toy pet kin
    take_care/took_care/taken_care se_occuper | of de | people | baby child pet horse cow garden grandmother house
    remember se_souvenir | - de | people | people film story song journey village
    climb monter | - sur | boy girl child cat goat monkey | chair table wall
    work travailler | for pour | people | king queen doctor baker farmer lawyer father uncle
    dance danser | with avec | people | people
"""
# Ditransitive verbs: the recipient takes `to` and à.
DATIVE = """
    give/gave/given donner | snack text small toy clothes stationery
    send/sent envoyer | letter gift photo flower newspaper
    lend/lent prêter | text stationery umbrella bike car bag clothes
    offer offrir | flower ring gift snack book coffee tea
    sell/sold vendre | fruit car bike house boat instrument horse
    show/showed/shown montrer | photo map ring letter book garden house road
    bring/brought apporter | letter newspaper snack flower key coffee tea bread
    explain expliquer | lesson question story word answer
"""
# Verbs that take an infinitive, with the french preposition before it.
CONTROL = """
    want vouloir | - | state
    like aimer | - | state
    love adorer | - | state
    hate détester | - | state
    hope espérer | - | state
    prefer/preferred préférer | - | state
    begin/began/begun commencer | à
    try essayer | de
    refuse refuser | de
    decide décider | de
    learn apprendre | à
    forget/forgot/forgotten oublier | de
"""
MODALS = "can/could pouvoir; must/must devoir"

# Places of particular verbs: english | preposition | places.
VERB_PLACES = """
    swim | in dans | lake river
    swim | at à | pool beach
    study | in dans | library bedroom kitchen garden school
    study | at à | library university school
    cook | in dans | kitchen garden restaurant house
    sleep | in dans | house garden bedroom hotel station train
    sleep | on sur | sofa bed carpet beach armchair
    sleep | under sous | tree table bridge
    sleep | next_to à_côté_de | tree river sofa
    smoke | in dans | garden street park
    smoke | in_front_of devant | building
    smoke | behind derrière | building
    rest | in dans | garden bedroom park house
    rest | on sur | sofa bed beach
    rest | under sous | tree
    get dressed | in dans | bedroom bathroom house
    hide | in dans | wardrobe cellar forest garden
    hide | under sous | bed table
    hide | behind derrière | sofa door tree wall
    go for a walk | in dans | park forest garden street village city
    go for a walk | on sur | beach hill bridge
    go for a walk | near près_de | lake river castle
    run | in dans | park forest street field garden
    run | on sur | beach road
    run | near près_de | lake river
    work | in dans | factory garden library shop city hotel
    work | at à | school hospital farm bank airport restaurant factory bakery pharmacy university
    play | in dans | garden park street bedroom house
    play | on sur | beach carpet
    play | under sous | table tree
    play | behind derrière | house school church
    smile | in dans | garden street kitchen park school
    smile | in_front_of devant | building
    fly | in dans | garden forest park
    fly | near près_de | tree lake house church
    fly | behind derrière | tree wall church
"""
