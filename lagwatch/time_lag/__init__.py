"""Estimates time lag, the age of the oldest record a group has not read, from end offsets and a few timestamp queries.

Polls do not return when a record was written, so each partition has points that bracket it, shared by all groups. A
point (offset, after, before) states that records from `offset` on were written at or after `after`, and records before
`offset` at or before `before`. Each end offset in a poll is a point: `before` is when it was first observed and `after`
when it was last observed, so that an idle period keeps both its start and its end. Each answer of a broker to a
ListOffsets request by timestamp adds one or two points.

`EndHistory` stores the points and returns `TimeLag`: the best estimate, with a lower and an upper bound.
"""

from lagwatch.time_lag.estimate import TimeLag
from lagwatch.time_lag.history import EndHistory
from lagwatch.time_lag.read_times import read_between
from lagwatch.time_lag.serialize import pack, unpack
from lagwatch.time_lag.timestamp_queries import SelectedTimestamps

__all__ = ["EndHistory", "SelectedTimestamps", "TimeLag", "pack", "read_between", "unpack"]
