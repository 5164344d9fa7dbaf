"""What needs root, in one small process with a closed list of requests.

    walproof --request--> helper (root) --> the kernel's audit, control groups
             <--answer---        |
                                 +-- the pipe ends: everything is undone

    requests.py     the list, and the checks of every argument
    audit.py the kernel's audit: one rule, and the earlier values
    read_group.py   a control group that limits reads
    theirs.py       a process that a request names: is it the servers' user's?
    process.py      the helper: serves requests, undoes what it did when its parent ends
    client.py       starts it and asks

The helper is told at its start for which user it acts, by whoever starts walproof. No request names a path, a
program or a user. Nothing else in walproof touches these parts of the kernel (tests/test_architecture.py). If
walproof was not started as root, the helper has no more rights than walproof, and refuses with the kernel's
own reason."""
