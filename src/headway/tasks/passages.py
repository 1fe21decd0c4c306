"""Short passages of several kinds of text, on which the int8 copy of an imported model is measured.

An imported run has no data. Prose, dialogue, code, lists, numbers and other languages make a model's activations as
varied as its users' texts do; a generating model goes on from each.
"""

PASSAGES = (
    "The river rose slowly through the night, and by morning the lower fields were a single sheet of grey water.",
    "In 1869 a table of the elements was published that left gaps for those which nobody had found yet.",
    "def area(width: float, height: float) -> float:\n    if width < 0:\n        raise ValueError(width)\n    return",
    '"Are you coming with us?" she asked. "No," he said, "somebody has to stay and look after the dogs."',
    "Ingredients: 200 g of flour, 3 eggs, half a litre of milk, a pinch of salt. First beat the eggs, then",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab und hat etwa zwanzig Minuten Verspätung, weil",
    "Le musée est ouvert tous les jours, sauf le lundi, de neuf heures à dix-huit heures, et l'entrée",
    "Question: what is the difference between a virus and a bacterium? Answer: a bacterium is",
    '{"name": "sensor-12", "unit": "celsius", "values": [18.2, 18.4, 19.1], "valid": true, "next":',
    "The company reported a revenue of 4.1 million for the second quarter, compared with 3.8 million a year",
    "<p>Welcome to the <a href='/library'>library</a>. Books may be kept for three weeks.</p>\n<ul>\n<li>",
    "1. Switch the machine off. 2. Remove the cover. 3. Check that the filter is dry. 4.",
    "El tiempo será soleado en el norte y lluvioso en el sur, con temperaturas entre doce y veinte grados",
    "Let x be a positive integer. If x is even, divide it by two; if it is odd, multiply it by three and add one.",
    "It is a truth often repeated that a good proof explains; a bad one only convinces.",
    "SELECT city, COUNT(*) AS people FROM residents WHERE year > 1990 GROUP BY city ORDER BY people",
)
