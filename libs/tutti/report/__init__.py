"""The report of a run: one page that needs nothing but itself.

`facts` asks the platform, `page` makes HTML of what it said, `charts` draws; only `writing` touches files.
"""
