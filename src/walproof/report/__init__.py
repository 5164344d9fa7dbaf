"""Facts in, documents out: one view, four forms.

``view.build_view`` analyses the facts of a run and lays them out; ``html``, ``markdown``, ``json`` and
``terminal`` show the same view. Offline: no server, no clock, no files but the page's template.

This file imports nothing, so that a table of WAL does not wait for the reports of studies.
"""
