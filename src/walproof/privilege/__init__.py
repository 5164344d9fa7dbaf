"""Which user does what: walproof, the unprivileged user of its servers, and who else could interfere.

When walproof is started as root, servers and their clients run as another user, who owns their files and may
exchange any of them for a symbolic link at any moment. Root therefore does nothing by path in those folders:

    user.py      the servers' user, and how a program is started as it
    acting.py    file operations with that user's rights, checked by the kernel
    copying.py   trees carried between folders of two users
    folders.py   folders of our own that nobody else may change
"""
