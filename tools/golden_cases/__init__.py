"""The cases of the golden record. Only headway's command line and its documented Python names are used."""
