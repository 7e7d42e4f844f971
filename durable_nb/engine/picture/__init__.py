"""The picture of a run's timeline: seconds to pixels, bars to rows, and all of it to SVG.

No plotting library: the picture is text, made of data that is made of records.
"""
