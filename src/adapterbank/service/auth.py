"""Keys: who may do what, for which tenant, and how much of it.

A key is `ab_<id>_<secret>`, shown once. The bank keeps a record under its id with a digest of the
secret; 32 random bytes need no slow hash. Records are files of the bank's store, so every process
on it sees a new or a revoked key within a few seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from adapterbank.errors import BankError, ConfigError, Forbidden, Unauthorized
from adapterbank.store.names import DEFAULT_TENANT, check_tenant
from adapterbank.store.record import now_text
from adapterbank.store.schema import decode
from adapterbank.store.sealed import seal, unseal
from adapterbank.store.store import Store

Role = Literal["read", "train", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
KEYS = "keys"  # the folder of their records
MAX_BYTES = 10_000
MOST_SEEN = 10_000  # keys remembered at once
SEEN_AGAIN = 2.0  # seconds after which a record is read again
_ID = re.compile(r"[0-9a-f]{16}")
_KEY = re.compile(r"ab_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Quotas:
    """How much a tenant may have and do."""

    tasks: int = 1_000
    rows: int = 200_000
    """Of one upload."""
    upload_bytes: int = 100 * 2**20
    jobs: int = 1
    """Running at once."""
    waiting_jobs: int = 20
    requests_a_second: float = 500.0


@dataclass(frozen=True)
class KeyRecord:
    """What the bank keeps of a key."""

    id: str
    tenant: str
    role: Role
    sha256: str
    """Of the secret."""
    created: str
    note: str = ""
    quotas: Quotas = field(default_factory=Quotas)


@dataclass(frozen=True)
class Caller:
    """Who is asking."""

    tenant: str
    role: Role
    quotas: Quotas = field(default_factory=Quotas)
    key: str = ""
    """The id of the key; empty where the bank has none."""

    def needs(self, role: Role) -> None:
        """Refuse a caller that has less than this role."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise Forbidden(
                f"This needs a key of the role {role}, and this one has {self.role}.",
                f"Make one: adapterbank keys create {self.tenant} --role {role}.",
            )


ANYONE = Caller(DEFAULT_TENANT, "admin")
"""Whoever can reach a service without keys: it listens on this machine alone."""


class Keys:
    """The keys of a bank. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self.files = store.files
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, KeyRecord]] = {}
        self._any = (float("-inf"), False)  # when it was looked at, and what was seen

    def create(
        self, tenant: str, role: Role = "train", note: str = "", quotas: Quotas | None = None
    ) -> str:
        """A new key: the one time that it can be seen."""
        if role not in ROLES:
            raise ConfigError(f"The role is {role!r}.", f"Choose from: {', '.join(ROLES)}.")
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        record = KeyRecord(
            id, check_tenant(tenant), role, _digest(secret), now_text(), note, quotas or Quotas()
        )
        if not self.files.create(f"{KEYS}/{id}.json", seal(asdict(record))):
            raise BankError("The key could not be kept.", "Try again.")
        return f"ab_{id}_{secret}"

    def list(self) -> list[KeyRecord]:
        """Every key's record, the oldest first."""
        ids = [name.removesuffix(".json") for name in self.files.names(KEYS)]
        found = [self._read(id) for id in ids if _ID.fullmatch(id)]
        return sorted((each for each in found if each), key=lambda each: (each.created, each.id))

    def revoke(self, id: str) -> None:
        """Let a key be known no more."""
        if not _ID.fullmatch(id) or self._read(id) is None:
            raise ConfigError("There is no key of that id.", "adapterbank keys list shows them.")
        self.files.remove(f"{KEYS}/{id}.json")
        with self._lock:
            self._seen.pop(id, None)

    def any(self) -> bool:
        """Whether the bank has keys at all."""
        if not self.any_is_fresh():
            self._any = (time.monotonic(), bool(self.files.names(KEYS)))
        return self._any[1]

    def any_is_fresh(self) -> bool:
        """Whether `any` will answer from memory."""
        return time.monotonic() - self._any[0] <= SEEN_AGAIN

    def caller(self, header: str | None) -> Caller:
        """Who an Authorization header belongs to."""
        found = _KEY.fullmatch((header or "").removeprefix("Bearer "))
        record = self._record(found[1]) if found else None
        # The same work for a wrong key as for a right one, so that times tell nothing.
        right = hmac.compare_digest(
            _digest(found[2] if found else ""), record.sha256 if record else _NOBODY
        )
        if record is None or not right:
            raise Unauthorized(
                "This key is not known." if header else "This needs a key.",
                "Send one as a header: Authorization: Bearer KEY.",
            )
        return Caller(record.tenant, record.role, record.quotas, record.id)

    def is_fresh(self, header: str | None) -> bool:
        """Whether `caller` will answer from memory."""
        found = _KEY.fullmatch((header or "").removeprefix("Bearer "))
        seen = self._seen.get(found[1]) if found else None
        return found is None or (seen is not None and time.monotonic() - seen[0] <= SEEN_AGAIN)

    def _record(self, id: str) -> KeyRecord | None:
        seen = self._seen.get(id)
        if seen is not None and time.monotonic() - seen[0] <= SEEN_AGAIN:
            return seen[1]
        record = self._read(id)
        with self._lock:
            self._seen.pop(id, None)
            if record is not None:  # guesses leave nothing behind
                self._seen[id] = (time.monotonic(), record)
                if len(self._seen) > MOST_SEEN:
                    self._seen.pop(next(iter(self._seen)))
        return record

    def _read(self, id: str) -> KeyRecord | None:
        try:
            raw = self.files.read(f"{KEYS}/{id}.json", MAX_BYTES)
            record: KeyRecord = decode(KeyRecord, unseal(raw), "key")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise BankError(f"The record of key {id} cannot be read.") from error
        return record


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
