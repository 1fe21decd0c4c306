"""The words of the grammar, as tables: `_` stands for a space, `/` separates forms, `;` or a line ends an entry."""

# english[/plural] french[/pluriel] gender. A star marks an aspirated h (le hibou), `-` a noun without a plural.
NOUNS = {
    "kin": """
        mother/- mère f; father/- père m; husband/- mari m; wife/- femme f; brother frère m; sister sœur f
        uncle oncle m; aunt tante f; cousin cousin m; grandmother grand-mère/grands-mères f; son fils m
        grandfather grand-père/grands-pères m; daughter fille f; friend ami m; neighbour voisin m
    """,
    "person": """
        man/men homme m; woman/women femme f; child/children enfant m; boy garçon m; girl fille f; baby bébé m
        king roi m; queen reine f; prince prince m; princess princesse f; hero/heroes *héros m; guest invité m
        tourist touriste m; prisoner prisonnier m; thief/thieves voleur m; giant géant m
    """,
    "worker": """
        teacher professeur m; doctor médecin m; nurse infirmier m; student étudiant m; baker boulanger m
        farmer fermier m; waiter serveur m; soldier soldat m; lawyer avocat m; engineer ingénieur m
        singer chanteur m; dancer danseur m; painter peintre m; writer écrivain m; driver chauffeur m
        actress actrice f; butcher boucher m; hairdresser coiffeur m; musician musicien m; gardener jardinier m
    """,
    "pet": "dog chien m; puppy chiot m; cat chat m; kitten chaton m; rabbit lapin m; hamster *hamster m",
    "fowl": """
        bird oiseau m; owl *hibou/*hiboux m; duck canard m; parrot perroquet m; goose/geese oie f; swan cygne m
        hen poule f; rooster coq m
    """,
    "insect": "butterfly papillon m; bee abeille f; ant fourmi f; spider araignée f",
    "beast": """
        horse cheval m; cow vache f; pig cochon m; goat chèvre f; donkey âne m; mouse/mice souris f
        hedgehog *hérisson m; bear ours m; wolf/wolves loup m; fox renard m; lion lion m; tiger tigre m
        elephant éléphant m; monkey singe m; giraffe girafe f; snake serpent m; frog grenouille f
        turtle tortue f; squirrel écureuil m
    """,
    "fruit": """
        apple pomme f; pear poire f; orange orange f; banana banane f; strawberry fraise f; cherry cerise f
        lemon citron m; peach pêche f; melon melon m; pineapple ananas m
    """,
    "vegetable": """
        tomato/tomatoes tomate f; potato/potatoes pomme_de_terre/pommes_de_terre f; carrot carotte f
        onion oignon m; mushroom champignon m; bean *haricot m
    """,
    "dish": """
        cake gâteau m; biscuit biscuit m; egg œuf m; sandwich sandwich m; pancake crêpe f; sausage saucisse f
        croissant croissant m; pie tarte f; omelette omelette f
    """,
    "food": """
        bread/- pain m; cheese/- fromage m; butter/- beurre m; meat/- viande f; rice/- riz m; soup/- soupe f
        salad/- salade f; chocolate/- chocolat m; jam/- confiture f; honey/- miel m; ham/- jambon m
        sugar/- sucre m; salt/- sel m; fish/- poisson m; ice_cream/- glace f; oil/- huile f; flour/- farine f
    """,
    "drink": """
        water/- eau f; milk/- lait m; coffee/- café m; tea/- thé m; wine/- vin m; beer/- bière f
        lemonade/- limonade f
    """,
    "text": "book livre m; letter lettre f; newspaper journal m; poem poème m",
    "stationery": "pen stylo m; pencil crayon m; notebook cahier m; map carte f; ticket billet m; photo photo f",
    "small": "key clé f; umbrella parapluie m; ring bague f; flower fleur f; gift cadeau m",
    "toy": "ball ballon m; doll poupée f; toy jouet m; kite cerf-volant/cerfs-volants m",
    "container": """
        bag sac m; suitcase valise f; box boîte f; basket panier m; drawer tiroir m; wardrobe armoire f
    """,
    "tableware": """
        bottle bouteille f; glass verre m; cup tasse f; plate assiette f; knife/knives couteau m
        fork fourchette f; spoon cuillère f
    """,
    "clothes": """
        hat chapeau m; coat manteau m; shirt chemise f; dress robe f; skirt jupe f; scarf/scarves écharpe f
        jacket veste f; sweater pull m; shoe chaussure f; boot botte f; sock chaussette f; glove gant m
    """,
    "machine": "lamp lampe f; clock horloge f; phone téléphone m; computer ordinateur m; radio radio f",
    "instrument": "guitar guitare f; piano piano m; violin violon m; flute flûte f; harp *harpe f; trumpet trompette f",
    "furniture": """
        table table f; chair chaise f; bed lit m; sofa canapé m; desk bureau m; mirror miroir m; carpet tapis m
        shelf/shelves étagère f; armchair fauteuil m
    """,
    "opening": "door porte f; window fenêtre f",
    "vehicle": """
        car voiture f; bus/buses bus m; train train m; boat bateau m; plane avion m; truck camion m
        bike vélo m; taxi taxi m
    """,
    "building": """
        house maison f; school école f; hospital hôpital m; hotel hôtel m; church/churches église f
        castle château m; museum musée m; library bibliothèque f; restaurant restaurant m; station gare f
        airport aéroport m; bakery boulangerie f; pharmacy pharmacie f; bank banque f; factory usine f
        farm ferme f; cinema cinéma m; theatre théâtre m; shop magasin m; university université f
    """,
    "room": "kitchen cuisine f; bedroom chambre f; bathroom salle_de_bains/salles_de_bains f; cellar cave f",
    "outdoors": "garden jardin m; park parc m; forest forêt f; village village m; city ville f; field champ m",
    "spot": "market marché m; beach plage f; pool piscine f; harbour port m",
    "nature": """
        tree arbre m; river rivière f; lake lac m; mountain montagne f; island île f; hill colline f
        bridge pont m; road route f; street rue f; wall mur m; tower tour f
    """,
    "event": """
        film film m; concert concert m; lesson leçon f; party fête f; meeting réunion f; match match m
        journey voyage m
    """,
    "speech": "story histoire f; song chanson f; question question f; answer réponse f; word mot m; secret secret m",
    "body": """
        foot/feet pied m; hand main f; tooth/teeth dent f; head/- tête f; back/- dos m; leg jambe f; arm bras m
        knee genou/genoux m; shoulder épaule f; stomach/- ventre m
    """,
}

# Names for several groups; wherever a group is allowed, a single noun is too.
GROUPS = {
    "people": "kin person worker",
    "animal": "pet fowl insect beast",
    "being": "people animal",
    "edible": "fruit vegetable dish food",
    "snack": "fruit dish",
    "object": "text stationery small toy container tableware clothes machine instrument",
    "portable": "text stationery small toy bag suitcase box basket tableware clothes phone radio guitar violin flute",
    "goods": "object furniture vehicle",
    "place": "building room outdoors spot",
    "anything": "being fruit vegetable dish goods place nature",
}

# english french[/feminine[/before a vowel]] | the nouns it suits. A `!` marks an invariable adjective.
ADJECTIVES = """
    small petit | people pet fowl beast snack goods place tree lake island hill bridge river mountain event
    big grand | pet fowl beast furniture vehicle place nature bag suitcase box basket wardrobe plate glass mirror
    fat gros/grosse | pet hen duck goose bear pig cow rabbit mouse squirrel
    old vieux/vieille/vieil | people pet horse donkey elephant goods building room city village nature film song
    young jeune | people pet beast
    new nouveau/nouvelle/nouvel | teacher doctor baker waiter neighbour friend goods building film song
    good bon/bonne | worker friend edible drink text restaurant hotel film story song answer
    bad mauvais | worker edible drink text restaurant hotel film story song answer
    beautiful beau/belle/bel | woman girl actress princess queen pet fowl butterfly horse goods place nature song
    pretty joli | girl princess kitten bird butterfly small clothes doll house village garden bedroom island song
    long long/longue | letter poem dress skirt coat scarf river road bridge train knife table snake film journey story
    excellent excellent | worker edible drink text restaurant film concert answer
    happy heureux/heureuse | people pet
    sad triste | people pet story song film poem
    tired fatigué | people pet horse donkey
    sick malade | people pet horse cow
    rich riche | people
    poor pauvre | people
    kind gentil/gentille | people
    polite poli | people
    shy timide | people kitten
    brave courageux/courageuse | people pet
    lazy paresseux/paresseuse | people cat donkey
    intelligent intelligent | people pet monkey elephant horse question
    famous célèbre | man woman king queen hero worker museum castle restaurant hotel bridge tower song film book
    strong fort | man woman boy soldier farmer horse bear elephant donkey coffee
    weak faible | people
    serious sérieux/sérieuse | people
    honest honnête | people
    curious curieux/curieuse | people pet monkey
    calm calme | people pet horse lake village park
    proud fier/fière | people lion rooster
    jealous jaloux/jalouse | people
    patient patient | people
    elegant élégant | man woman worker princess clothes
    generous généreux/généreuse | people
    funny drôle | people monkey parrot film story
    tall grand | people
    cute mignon/mignonne | baby child girl boy pet duck hedgehog squirrel monkey
    fast rapide | horse lion tiger vehicle
    slow lent | turtle donkey waiter bus train computer boat
    dangerous dangereux/dangereuse | wolf lion tiger snake bear spider road river thief journey
    wild sauvage | wolf bear lion tiger elephant monkey snake fox horse goat duck goose bird
    faithful fidèle | dog friend husband
    noisy bruyant | child neighbour parrot rooster vehicle street restaurant hotel market party
    heavy lourd | container machine suitcase furniture book armchair
    light léger/légère | bag suitcase box basket bike coat jacket shoe plane
    expensive cher/chère | goods restaurant hotel house wine meat fish cheese
    cheap bon_marché! | object furniture bike hotel restaurant
    clean propre | clothes tableware furniture vehicle room building beach
    dirty sale | clothes tableware furniture vehicle room opening
    broken cassé | toy tableware machine furniture opening bike umbrella
    empty vide | container bottle glass cup plate bus train room building beach
    full plein | container bottle glass cup bus train
    round rond | table mirror plate carpet box lake tower clock
    short court | letter poem dress skirt coat journey film story meeting
    wide large | river road bridge bed table sofa door window street
    narrow étroit | river road bridge bed door window street
    modern moderne | building machine furniture kitchen bathroom city vehicle
    useful utile | book map umbrella knife bag basket machine answer word
    wooden en_bois! | toy furniture box bridge door boat spoon
    practical pratique | bag suitcase container machine bike coat
    comfortable confortable | bed sofa armchair chair shoe boot hotel bedroom sweater car
    soft doux/douce | sweater scarf glove bed carpet
    wet mouillé | clothes dog cat carpet umbrella newspaper
    dry sec/sèche | clothes bread carpet
    strange étrange | person animal letter photo building film story question answer secret
    precious précieux/précieuse | ring photo book letter clock violin
    delicious délicieux/délicieuse | snack soup salad cheese chocolate jam honey ham ice_cream coffee tea wine
    fresh frais/fraîche | fruit vegetable egg bread cheese butter meat fish salad water milk lemonade
    sweet sucré | fruit cake biscuit pie lemonade tea coffee
    salty salé | soup cheese butter ham biscuit
    hot chaud | water milk coffee tea soup bread croissant pancake pie omelette
    cold froid | water milk tea beer lemonade soup meat omelette room
    ripe mûr | fruit tomato
    bitter amer/amère | coffee tea beer chocolate orange
    peaceful paisible | village garden park lake island beach forest
    dark sombre | room forest church castle street
    interesting intéressant | text film story question answer museum city meeting lesson journey
    important important | letter text question answer meeting word man woman
    difficult difficile | lesson question journey word text
    easy facile | lesson question journey word song
    red rouge | goods fruit tomato wine flower door
    blue bleu | goods bird butterfly parrot door lake
    green vert | goods apple pear bean frog snake parrot door
    yellow jaune | goods bird parrot butterfly flower melon
    black noir | goods pet fowl beast spider ant
    white blanc/blanche | goods pet hen goose swan duck owl bird horse goat house wall wine
    grey gris | goods pet donkey mouse goose wolf wall
    brown marron! | goods horse bear dog cow
    pink rose | clothes small toy bike car carpet sofa
    purple violet/violette | clothes small umbrella toy carpet armchair
    french français | people text wine cheese car film restaurant song
    english anglais | people text tea car film garden song
    spanish espagnol | people text wine orange guitar film restaurant song
    italian italien/italienne | people text wine car film restaurant shoe ice_cream song
    german allemand | people text beer car film train machine
"""
PREPOSED = "small big fat old young new good bad beautiful pretty long excellent kind"
SHORT_ADJECTIVES = """
    small big fat old young pretty long happy sad rich poor kind brave lazy strong weak proud funny tall cute
    fast slow wild calm ripe sick
    noisy heavy light cheap clean dirty short wide narrow soft dry strange fresh sweet salty hot cold dark easy
"""
# Not used after `is` (a new car is neuve there), and not used before a noun (un homme grand is odd).
ONLY_BEFORE = "new"
ONLY_AFTER = "tall"
# Not gradable: without comparative, superlative and degree.
ABSOLUTE = """
    excellent broken empty full wooden round wet new cheap delicious red blue green yellow black white grey brown pink
    purple french english spanish italian german
"""

# be in English, avoir in French.
STATES = "hungry faim; thirsty soif; cold froid; hot chaud; sleepy sommeil; right raison; wrong tort; afraid peur"
# english masculine/feminine, for `she is a nurse`.
PROFESSIONS = """
    teacher professeur/professeure; doctor médecin/médecin; nurse infirmier/infirmière; student étudiant/étudiante
    baker boulanger/boulangère; farmer fermier/fermière; waiter serveur/-; soldier soldat/soldate
    lawyer avocat/avocate; engineer ingénieur/ingénieure; singer chanteur/chanteuse; dancer danseur/danseuse
    painter peintre/peintre; writer écrivain/écrivaine; driver chauffeur/-; actress -/actrice
    butcher boucher/bouchère; hairdresser coiffeur/coiffeuse; musician musicien/musicienne
    gardener jardinier/jardinière
"""

# english french | nouns: places of things, of people and of animals. `at` is à, which contracts.
THING_PLACES = """
    on sur | table chair bed sofa desk shelf carpet armchair
    under sous | table chair bed sofa desk armchair tree
    in dans | bag suitcase box basket drawer wardrobe kitchen bedroom bathroom cellar car
    behind derrière | sofa door wardrobe armchair mirror bed
    next_to à_côté_de | table bed sofa desk mirror lamp computer
    in_front_of devant | door mirror window house
    near près_de | window door bed wall piano
"""
BEING_PLACES = """
    in dans | outdoors room church castle museum library hotel station street school
    at à | market beach pool station school hospital museum restaurant theatre cinema farm airport hotel
    on sur | beach bridge hill island
    under sous | tree bridge
    behind derrière | building tree wall
    in_front_of devant | building river
    near près_de | building lake river tree beach harbour
    next_to à_côté_de | building river
    far_from loin_de | building village city
    opposite en_face_de | building
"""
ANIMAL_PLACES = """
    in dans | outdoors house kitchen cellar street
    on sur | beach bridge hill island road
    under sous | tree bridge table
    behind derrière | house farm tree wall
    in_front_of devant | house church farm
    near près_de | house farm lake river tree
    next_to à_côté_de | house farm river tree
    far_from loin_de | house farm village
"""
DESTINATIONS = """
    market beach pool station school hospital museum restaurant theatre cinema farm airport hotel castle library bank
    bakery pharmacy factory university church shop village park harbour
"""

# english subject, object, possessive; french subject, direct, indirect, stressed; person; f feminine, p plural.
PRONOUNS = """
    i me my je me me moi 0 -
    you you your vous vous vous vous 4 p
    he him his il le lui lui 2 -
    she her her elle la lui elle 2 f
    we us our nous nous nous nous 3 p
    they them their ils les leur eux 5 p
"""
# Nouns without a possessive (not my wolf, her mountain, his actresses), and the possessives of a spouse.
UNOWNED = """
    beast insect fowl nature spot person farmer waiter soldier engineer singer dancer painter writer actress musician
    airport station hospital museum church castle theatre cinema university pharmacy bus train plane taxi
"""
SPOUSES = {"husband": "my your her", "wife": "my your his"}
# Temporary moods, and feelings that have a reason; they suit all people.
PASSING = "happy sad tired sick polite shy lazy serious calm proud jealous patient generous funny kind"
FEELINGS = "happy sad tired proud"
# english singular/plural, french masculine/feminine/plural.
DETERMINERS = {
    "the": "the/the le/la/les",
    "a": "a/some un/une/des",
    "this": "this/these ce/cette/ces",
    "that": "that/those ce/cette/ces",
    "my": "my/my mon/ma/mes",
    "your": "your/your votre/votre/vos",
    "his": "his/his son/sa/ses",
    "her": "her/her son/sa/ses",
    "our": "our/our notre/notre/nos",
    "their": "their/their leur/leur/leurs",
    "every": "every/- chaque/chaque/-",
    "another": "another/- un_autre/une_autre/-",
    "many": "-/many -/-/beaucoup_de",
    "several": "-/several -/-/plusieurs",
    "a_few": "-/a_few -/-/quelques",
    "too_many": "-/too_many -/-/trop_de",
    "enough": "enough/enough assez_de/assez_de/assez_de",
    "no": "a/any de/de/de",
    "any": "any/any de/de/de",
    "bare": "/ de_le/de_la/des",
    "some": "some/some de_le/de_la/des",
    "generic": "/ le/la/les",
}
NUMBERS = """
    two deux; three trois; four quatre; five cinq; six six; seven sept; eight *huit; nine neuf; ten dix; eleven *onze
    twelve douze; thirteen treize; fourteen quatorze; fifteen quinze; sixteen seize; twenty vingt; thirty trente
    forty quarante; fifty cinquante; sixty soixante
"""
ORDINALS = """
    first premier/première; second deuxième; third troisième; fourth quatrième; fifth cinquième; last dernier/dernière
    only seul; same même
"""
DEGREES = "very très; too trop; quite assez; really vraiment; so si; extremely extrêmement"
FREQUENCIES = "often souvent; always toujours; sometimes parfois; rarely rarement"
# `+` marks the French adverbs that precede a participle or an infinitive.
MANNERS = """
    well +bien; badly +mal; a_lot +beaucoup; too_much +trop; quickly vite; slowly lentement; together ensemble
    loudly fort
"""
SCENES = "here ici; over_there là-bas; outside dehors; inside à_l'intérieur"
DAYS = (
    "monday lundi; tuesday mardi; wednesday mercredi; thursday jeudi; friday vendredi; saturday samedi; sunday dimanche"
)
MONTHS = """
    january janvier; february février; march mars; april avril; may mai; june juin; july juillet; august août
    september septembre; october octobre; november novembre; december décembre
"""
SEASONS = "spring au_printemps; summer en_été; autumn en_automne; winter en_hiver"
HABITS = """
    every_day tous_les_jours; every_morning tous_les_matins; every_evening tous_les_soirs; in_the_morning le_matin
    in_the_evening le_soir; in_the_afternoon le_après-midi; at_night la_nuit; every_week toutes_les_semaines
    today aujourd'hui
"""
PASTS = """
    yesterday hier; yesterday_morning hier_matin; yesterday_evening hier_soir; last_week la_semaine_dernière
    last_month le_mois_dernier; last_year la_année_dernière; this_morning ce_matin
"""
FUTURES = """
    tomorrow demain; tomorrow_morning demain_matin; tomorrow_evening demain_soir; tonight ce_soir; soon bientôt
    next_week la_semaine_prochaine; next_month le_mois_prochain; next_year la_année_prochaine
    this_afternoon ce_après-midi
"""
UNITS = "day jour m; week semaine f; month mois m; year an m"
# english french | contents: a cup of tea.
MEASURES = """
    cup tasse f | tea coffee milk chocolate
    glass verre m | water milk wine beer lemonade
    bottle bouteille f | water milk wine beer lemonade oil
    box boîte f | chocolate tea biscuit egg mushroom
    basket panier m | fruit mushroom egg
    slice tranche f | bread ham cheese meat
    piece morceau m | bread cheese chocolate cake meat sugar
    kilo kilo m | fruit vegetable rice flour sugar meat
    plate assiette f | soup rice salad bean mushroom
"""
# Weather, as whole clauses.
WEATHER = """
    it_is_raining il_pleut; it_is_snowing il_neige; it_is_cold il_fait_froid; it_is_hot il_fait_chaud
    it_is_sunny il_fait_beau; it_is_windy il_y_a_du_vent; it_is_dark il_fait_nuit
"""
