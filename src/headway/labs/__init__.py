"""The course: one lab for each claim of the lecture decks, which checks itself, run by the command `lab`.

`frame` says what a lab is, `registry` lists them, `course` runs all of them and writes one page.
"""
