"""One exception tree: every error that a person can cause and put right.

    AdapterBankError
    ├── ConfigError            a setting that cannot be
    ├── BaseError              the frozen encoder
    │   ├── BaseNotFound         not installed, not a folder, hub unreachable
    │   ├── BaseDamaged          wrong digest, incomplete, not safetensors
    │   └── UnsupportedBase      an architecture without a row in `model/sites.py`
    ├── AttachError            attaching twice, detaching what is not attached
    ├── PackingError           a packed batch that lost its bounds, or a base that cannot pack
    ├── BankError              a bank that is missing, damaged, or cannot be written to
    │   ├── BankNotFound         nothing there
    │   ├── TaskNotFound         no task or version of that name
    │   ├── NotBetter            a version that went on from another and came out worse
    │   └── WrongBase            a base other than the one that everything in the bank fits
    ├── PackageError           a package that is missing, damaged, or not of this base
    ├── DataError              labelled text that cannot be read
    ├── Busy                   more is waiting than can be answered in time
    ├── Unauthorized           no key, or none that the service knows
    ├── Forbidden              a key that may not do this
    ├── JobNotFound            no job of that id
    ├── TooLarge               more than a request may hold
    ├── ServiceError           a service that cannot be reached, or could not answer
    ├── TrainingDiverged       a loss that is no number any more
    ├── CheckpointError        the state of a run that cannot be written or read
    └── ComputeError           trials or jobs that failed where they ran

Each carries `hint`: what to do next. The command line prints both and exits with 1.
"""

from __future__ import annotations


class AdapterBankError(Exception):
    """Something a person can put right: what came, and what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ConfigError(AdapterBankError):
    """A setting that cannot be."""


class BaseError(AdapterBankError):
    """The frozen encoder could not be had."""


class BaseNotFound(BaseError):
    """No encoder under that name."""


class BaseDamaged(BaseError):
    """An encoder is there, but not whole, not the right one, or not in a safe form."""


class UnsupportedBase(BaseError):
    """An encoder whose architecture has no row in the table of sites."""


class AttachError(AdapterBankError):
    """Attached twice, or detached when not attached."""


class PackingError(AdapterBankError):
    """A packed batch without its bounds, or a base that cannot take packed batches."""


class BankError(AdapterBankError):
    """A bank that is missing, damaged, or cannot be written to."""


class BankNotFound(BankError):
    """There is no bank at that place."""


class TaskNotFound(BankError):
    """No task or version of that name."""


class NotBetter(BankError):
    """A version that went on from another and came out worse; it is not published."""


class WrongBase(BankError):
    """A base other than the one that everything in the bank fits."""


class PackageError(AdapterBankError):
    """A package that is missing, damaged, or not of this base."""


class DataError(AdapterBankError):
    """Labelled text that cannot be read."""


class Busy(AdapterBankError):
    """More is waiting than can be answered in time."""


class Unauthorized(AdapterBankError):
    """No key, or none that the service knows."""


class Forbidden(AdapterBankError):
    """A key that may not do this."""


class JobNotFound(AdapterBankError):
    """No job of that id."""


class TooLarge(AdapterBankError):
    """More than a request may hold."""


class ServiceError(AdapterBankError):
    """A service that cannot be reached, or could not answer."""


class TrainingDiverged(AdapterBankError):
    """A loss that is no number any more."""


class CheckpointError(AdapterBankError):
    """The state of a run that cannot be written or read."""


class ComputeError(AdapterBankError):
    """Trials or jobs that failed where they ran."""
