"""One file per API key: the folder listing is the protocol coverage.

Each module opens with its versions, behaviour, KIPs and what is left out, and ends in ``API``, its entry in the
router's table. A handler translates a request into one call of a service and the result into a reply.
"""
