"""Requests that wait: in order of arrival within a client, and between clients the one that had least goes first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

HALF_LIFE = 5.0  # seconds after which tokens that a client had count half


class OfClient(Protocol):
    """What waits: it belongs to a client."""

    @property
    def client(self) -> str: ...


Item = TypeVar("Item", bound=OfClient)


class FairQueue(Generic[Item]):
    """A bounded queue for each client. No call takes longer than the number of clients."""

    def __init__(self, limit: int, client_limit: int) -> None:
        self.limit, self.client_limit = limit, client_limit
        self._queues: dict[str, deque[Item]] = {}
        self._spent: Counter[str] = Counter()  # tokens of each client, of late
        self._halved = 0.0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def offer(self, request: Item) -> str | None:
        """Add a request, or return why not."""
        if self._count >= self.limit:
            return "queue_full"
        queue = self._queues.setdefault(request.client, deque())
        if len(queue) >= self.client_limit:
            return "client_limit"
        queue.append(request)
        self._count += 1
        return None

    def head(self) -> Item | None:
        """The request that goes next: the oldest of the client that had the fewest tokens of late."""
        waiting = [client for client, queue in self._queues.items() if queue]
        return self._queues[min(waiting, key=self._spent.__getitem__)][0] if waiting else None

    def take(self) -> Item:
        """Remove and return the request that goes next."""
        head = self.head()
        assert head is not None
        self._queues[head.client].popleft()
        self._count -= 1
        return head

    def spend(self, client: str, tokens: int) -> None:
        """Note tokens that were read or written for a client."""
        self._spent[client] += tokens

    def remove(self, leaves: Callable[[Item], bool]) -> Iterator[Item]:
        """Remove the requests that leave, and yield them."""
        for client, queue in list(self._queues.items()):
            left = [request for request in queue if leaves(request)]
            if left:
                self._queues[client] = deque(request for request in queue if not leaves(request))
                self._count -= len(left)
                yield from left

    def forget(self, now: float) -> None:
        """Halve what was spent every few seconds, and drop clients that are gone."""
        if now - self._halved < HALF_LIFE:
            return
        self._halved = now
        self._spent = Counter({client: spent // 2 for client, spent in self._spent.items() if spent > 1})
        self._queues = {client: queue for client, queue in self._queues.items() if queue or self._spent[client]}
