"""The command line: `app.py` lists the commands, each in a module of its own."""
