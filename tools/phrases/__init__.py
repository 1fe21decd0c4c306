"""The grammar behind the built-in data set `phrases`: English and French sentences generated together.

`make phrases` writes what it generates into the package as a table, and `headway.data.synthetic.phrases` reads that.
The module's docstring there lists the conventions that make the French follow from the English.
"""
