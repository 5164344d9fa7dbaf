"""How sure is a set of comparisons? Pure functions of arrays: no trial, no plan, no server.

``spread``     what one round's log ratio varies by, taken from all variants where they do not contradict that
``family``     the chance that any of several comparisons looks that different by chance
``two_stage``  how many rounds a wanted width takes, from a pilot
``looks``      when a decision may be taken early, without being wrong more often
"""
