"""Encoded replies that depend on nothing but the image of the cluster (and how they were asked for)."""

from __future__ import annotations

from runnel.core.metadata import ClusterImage

REPLIES_MAX = 64


class ReplyCache:
    """Replies of the current image; a new image empties it."""

    def __init__(self) -> None:
        self._image_version = -1
        self._replies: dict[object, bytes] = {}

    def get(self, image: ClusterImage, key: object) -> bytes | None:
        if image.version != self._image_version:
            self._image_version = image.version
            self._replies.clear()
        return self._replies.get(key)

    def put(self, key: object, body: bytes) -> None:
        if len(self._replies) >= REPLIES_MAX:
            self._replies.clear()
        self._replies[key] = body
