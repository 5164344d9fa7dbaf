"""Many machines: ranges of an archive, and whole rounds of a study, as tasks of a Ray cluster.

Ray is an extra, ``pip install "walproof[hosts]"``, and is imported only when a cluster is asked for. What a
task computes is a plain function on one machine; this package decides where it runs and what becomes of its
answer (docs/many-machines.md).
"""
