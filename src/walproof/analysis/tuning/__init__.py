"""What should a tuning measure next, and what has it found? Functions of stored facts and of a judge.

``search`` walks through the phases; ``screen``, ``race`` and ``ablation`` hold the longer ones. ``lines`` has
the verdicts, ``export`` the study that optuna-dashboard opens. docs/tune-search.md explains the search.
"""
