"""`make results`: every table and figure of docs/results.md from the stored JSON of the experiments.

    python -m experiments.page             # write docs/results.md and its figures
    python -m experiments.page --check     # only say what is stale

The prose of the page is written by hand; what stands between two markers, `<!-- results: NAME -->` and
`<!-- /results -->`, is written here. Figures carry the digest of the numbers that they show.
"""
