"""Many rollouts: folders of Parquet files, credited file by file in bounded memory, on one machine or on a Ray cluster.

A file is credited by itself, so it must hold whole groups; `group_files` makes such files of any. Each is written
beside its name and renamed, and a journal says which are done, so that a run that was killed goes on where it was.
"""

from apportion.adapters.volume.grouping import Grouped, group_files
from apportion.adapters.volume.run import Summary, assign_files

__all__ = ["Grouped", "Summary", "assign_files", "group_files"]
