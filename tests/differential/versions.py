"""What is played: every version of every API that Runnel advertises, known without starting a broker."""

from __future__ import annotations

from runnel.broker.apis import APIS

SERVED = {int(api.key): range(api.serves_from or api.versions[0], api.versions[1] + 1) for api in APIS}
