"""What nobody but this user and root can have written: files by their owner, folders by owner and mode, with all folders above them."""
from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path


def is_own(found: os.stat_result) -> bool:
    """Return whether a file belongs to this user or root. Of systems without users no such thing is known, and the answer is yes."""
    return not hasattr(os, "getuid") or found.st_uid in (os.getuid(), 0)


def others_can_write(found: os.stat_result) -> bool:
    """Return whether everybody may write, or a group in which others than this user are."""
    if not hasattr(os, "getuid"):
        return False
    return bool(found.st_mode & stat.S_IWOTH) or bool(found.st_mode & stat.S_IWGRP) and not _is_private(found.st_gid)


@lru_cache(maxsize=64)
def _is_private(group: int) -> bool:
    """Return whether a group has this user alone: many systems make one for each user, and files that it may write to."""
    import grp  # here: not on every system
    import pwd
    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def why_not_own(folder: Path, endings: tuple[str, ...] = ()) -> str:
    """Return why another user may have put files into a folder, as the end of a sentence, or "" where none can. It checks three places:
    the folder, or the nearest one above it that exists; those above that; and files in it with these endings. A folder above may be
    open to all where it is sticky, as /tmp is: there, others cannot rename what they do not own."""
    place = Path(os.path.realpath(folder))
    there = next(p for p in (place, *place.parents) if p.exists())
    for path in (there, *there.parents):
        found = path.stat()
        sticky = bool(found.st_mode & stat.S_ISVTX) and path != place
        if not is_own(found):
            return f"{path} belongs to another user"
        if others_can_write(found) and not sticky:
            return f"others may write to {path}"
    if place == there and endings:
        with os.scandir(place) as entries:
            for e in entries:
                if e.name.endswith(endings) and (not is_own(found := e.stat(follow_symlinks=False)) or others_can_write(found)):
                    return f"another user can have written {e.path}"
    return ""
