"""What keeps processes in a sandbox: a client sends these files into a session, and calls keeper.do() there.

Each operation has an id, under which its answer is kept: one whose answer was lost is asked for again, and is not done
twice. One thread serves the pipes of all processes, so that none of them waits for its client.

Standard library only, for Python 3.8 and later: it runs in the interpreter of the sandbox's image.
"""
