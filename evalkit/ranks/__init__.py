"""The rank of every relevant item, found by streaming the rankings past the truth once.

In: the truth, and rankings in batches.
Out: `Ranks`: an array beside the truth's items, for each model.
Open first: `_scan.py`, then `_probe.py`.

Rankings are never grouped, sorted or joined. Each row looks up its user, asks a small filter
whether its item may be relevant, and on a hit lowers one entry of `Ranks.ranks`, which lies
beside the truth's items. All shared entries change by atomic minimum, maximum or sum, so neither
the order of rows nor the number of threads can change a result.

Where only scores are given, a hit's rank is one more than the number of the user's rows that beat
it: counted, not sorted. A user's rows usually lie together and one pass does it; when a user
reappears, the pass starts again in two scans: best score of each relevant item, then the counts.
"""

from evalkit.ranks._probe import scan_alike
from evalkit.ranks._records import NO_TIES, NOT_RANKED, ModelProbe, Ranks
from evalkit.ranks._scan import RankScan, are_held_whole
from evalkit.ranks._whole_lists import UNORDERED_TIES
