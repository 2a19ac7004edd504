"""Client quotas: which holds for whom, how rates are measured, how long who exceeds them is throttled.

Owns no clock and no connection: the time comes in with each record, a throttle time comes out. Behaviour is Apache
Kafka's (ClientQuotaManager; KIP-13, KIP-55, KIP-124, KIP-219, KIP-599, KIP-612). Imports the standard library only.
Reading order: `rates` → `sensors` → `tables` → `book`.
"""

from runnel.core.quotas.book import UNLIMITED, ClientSensors, QuotaBook, QuotaKey
from runnel.core.quotas.rates import Window
from runnel.core.quotas.sensors import MutationSensor, RateSensor

__all__ = ["UNLIMITED", "ClientSensors", "MutationSensor", "QuotaBook", "QuotaKey", "RateSensor", "Window"]
