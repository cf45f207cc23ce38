"""How old is the oldest record a group has not read: ends of partitions and a few questions by time in, seconds out.

Nobody tells when a record was written, so each partition has points that bracket it, shared by all groups. A point
(offset, after, before) says two things: records from `offset` on were written at or after `after`, and records before
`offset` were written at or before `before`. Each end seen in a poll is a point: `before` is when it was first seen and
`after` when it was last seen, so that a silence keeps both of its ends. Each answer of a broker to "which is the first
record at or after this time" is one or two more.

`EndHistory` keeps the points and answers with `TimeLag`: the best guess, and bounds the truth lies between.
"""

from lagwatch.time_lag.estimate import TimeLag
from lagwatch.time_lag.history import EndHistory
from lagwatch.time_lag.read_times import read_between
from lagwatch.time_lag.serialize import pack, unpack
from lagwatch.time_lag.timestamp_queries import WantedTimestamps

__all__ = ["EndHistory", "TimeLag", "WantedTimestamps", "pack", "read_between", "unpack"]
