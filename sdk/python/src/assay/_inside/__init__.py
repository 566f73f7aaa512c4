"""Runs processes in a sandbox: a client sends these files into a session, and calls keeper.do() there.

The answer of each operation is stored under the operation's id. If an answer is lost, the client repeats the
operation, which is not done twice. One thread serves the pipes of all processes, so that no process waits for its
client.

Standard library only, for Python 3.8 and later: it runs in the interpreter of the sandbox's image.
"""
