"""Projects whose storage was moved. In: a project. Out: the problem, if it is one.

What Spark keeps there, the catalog and the checkpoints, names files by their whole paths. Read from another place,
tables would be empty or broken; where a spec still names the old place, everything would be processed once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.spark.pipelines.notes import read_state
from runnel.spark.pipelines.spec_file import Place, Problem, storage_uri

CURE = (
    "tables and checkpoints name files by their whole paths: move it back, or name a new storage, where everything is "
    "computed anew and sinks get their records again"
)


def find_move(place: Place) -> Iterator[Problem]:
    storage = place.local_storage
    if storage is None:
        return
    was = read_state(place).get("storage", str(storage))
    if was != str(storage):
        yield Problem(f"storage {storage} was moved: it has been {was}; {CURE}", place.spec_path.name)
    elif not storage.exists():
        for folder in sorted(path for path in place.folder.iterdir() if path.is_dir()):
            if read_state(Place(place.spec_path, place.name, storage_uri(folder))).get("storage") == str(storage):
                yield Problem(
                    f"storage {storage} was moved with the project: it is {folder} now; {CURE}", place.spec_path.name
                )
