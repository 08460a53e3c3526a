"""A check for enough memory, before libraries end the process because memory is missing.

Numerical libraries reserve address space for their threads, and where it is limited (`ulimit -v`) some of them abort or
hang instead of raising an error. Such a limit can be read beforehand.
"""

import errno

# Gigabytes of address space, measured on two cores, with all optional libraries; most of it is reserved and never used.
IMPORT = 0.45
NEEDED = {"release": 2.8, "evaluate": 2.6, "demo": 1.8, "report": 0.95, "check": 1.0, "sample": 0.7, "accept": 2.8,
          "ask": 2.8, "fit": 2.8}
LIKELY = max(NEEDED.values())


class TooLittleMemoryError(MemoryError):
    """Less memory is allowed than is needed; the message is made of public facts."""


def check_memory(needed: float) -> None:
    """Raise a TooLittleMemoryError if this process may not use so many gigabytes of address space."""
    try:
        import resource
    except ImportError:  # Such limits are Unix's.
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < needed * 1e9:
        raise TooLittleMemoryError(f"there is not enough memory: about {needed:g} GB of address space are needed, and "
                                   f"this process may use {limit / 1e9:.2g} GB (see `ulimit -v`)")


def shortage(error: BaseException) -> str | None:
    """Return the message for an error that comes of too little memory, or None if it is another one."""
    if isinstance(error, TooLittleMemoryError):
        return str(error)
    thread = isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    if isinstance(error, MemoryError) or thread or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return (f"there is not enough memory: about {LIKELY:g} GB of address space are needed for a release, and more "
                "for a table of many columns")
    try:
        check_memory(LIKELY)
    except TooLittleMemoryError as limited:
        # A library may have turned the lack of memory into another error.
        return f"an unexpected {type(error).__name__}; perhaps the reason is this: {limited}"
    return None


check_memory(IMPORT)
