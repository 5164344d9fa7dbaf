"""What should a tuning measure next, and what has it found? Functions of stored facts and of a judge.

``search`` walks through the phases; a phase is a file: ``screen``, ``race``, ``ablation``, ``closing``.
``lines`` has the verdicts, ``export`` the study that optuna-dashboard opens. docs/tune-search.md explains it.
"""
