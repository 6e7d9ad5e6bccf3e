"""Inputs that lie in a client's shared memory, mapped and not copied.

Every input gets a private mapping of its own: the model's writes stay in this process, and go with the mapping. A model may
keep an array for longer than its request, and the client may then reuse its memory. So `settle` gives arrays that are still
referenced pages of their own when the request ends.

A client that makes its object shorter takes the pages away, and the system answers their next access with SIGBUS, which
would end the process and all its requests. So the signal is caught here: zeros replace the lost pages, and only the request
that brought the memory fails.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import signal
import weakref

from . import datatypes

_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_OWN_PAGES = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# As the C library of Linux has them.
_MAP_FIXED = 0x10
_MREMAP_TO = 3
_SA_SIGINFO = 4
_MADV_POPULATE_READ = 22
_FAILED = ctypes.c_void_p(-1).value
# Offset of the accessed address in `siginfo_t`.
_ADDRESS_OF_FAULT = 16

# Error of a request whose memory was taken away.
LOST = "The shared memory of an input has become shorter, or cannot be mapped. Keep its size until the request has ended"

# By address: the mappings of clients' objects, and who looks at these or at what has taken their place.
_mapped: dict = {}
_owners: dict = {}


@functools.lru_cache(None)
def _libc():
    # Does not let go of Python's lock: the handler of the signal calls it, too.
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    numbers = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *numbers)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.mremap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    return libc


class ClientInput:
    """One mapping. It goes when the last array over it is gone, of which `view` is the first."""

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        skip = offset % mmap.PAGESIZE
        self.is_broken = False
        self._size = skip + size
        np = datatypes.numpy()
        self._start = _map(None, self._size, mmap.MAP_PRIVATE, descriptor, offset - skip)
        # All pages at once, for less than one by one. An older system may refuse.
        _libc().madvise(self._start, self._size, _MADV_POPULATE_READ)
        owner = np.frombuffer((ctypes.c_ubyte * size).from_address(self._start + skip), dtype=np.uint8)
        self._owner = weakref.ref(owner, functools.partial(_unmap, self._start, self._size))
        # A weak reference that is gone itself tells nothing.
        _owners[self._start] = self._owner
        _mapped[self._start] = self
        self.view = memoryview(owner)

    def settle(self) -> None:
        """From here on the client's writes change no array."""
        owner = self._owner()
        if owner is None or _mapped.get(self._start) is not self:
            return
        copy = _map(None, self._size, _OWN_PAGES, -1, 0)
        ctypes.memmove(copy, self._start, self._size)
        # At one stroke: other threads may be reading the array.
        if _libc().mremap(copy, self._size, self._size, _MREMAP_TO, self._start) == _FAILED:
            raise OSError(ctypes.get_errno(), "cannot keep an input of a client's shared memory")
        _mapped.pop(self._start, None)

    def holds(self, address: int) -> bool:
        return self._start <= address < self._start + self._size

    def replace_from(self, address: int) -> bool:
        """Puts zeros where the object has ended. False: the address is none of this mapping."""
        if not self.holds(address):
            return False
        self.is_broken = True
        page = address - address % mmap.PAGESIZE
        _map(page, self._start + self._size - page, _OWN_PAGES | _MAP_FIXED, -1, 0)
        return True


class UnmappedInput:
    """One in this process's own memory: a copy, or zeros in place of what cannot be had, which no model gets to see."""

    def __init__(self, view: memoryview, is_broken: bool) -> None:
        self.view = view
        self.is_broken = is_broken

    def settle(self) -> None:
        """No client can change it."""


class ClientMemory:
    """The inputs of requests that have not ended, by request."""

    def __init__(self, server_pid: int) -> None:
        self._folder = "/proc/%d/fd" % server_pid
        self._read: list = []
        self._inputs: dict = {}

    def may_open(self) -> bool:
        """Whether the system lets this process open what the server has open."""
        try:
            os.listdir(self._folder)
        except OSError:
            return False
        return True

    def view(self, number: int, device: int, inode: int, offset: int, size: int) -> memoryview:
        """Data of an object that the server has open by this number."""
        try:
            found = self._open(number, (device, inode), offset, size)
        except OSError:
            found = UnmappedInput(memoryview(mmap.mmap(-1, size)), is_broken=True)
        self._read.append(found)
        view, found.view = found.view, None
        return view

    def _open(self, number: int, identity: tuple, offset: int, size: int):
        # The number may belong to something else by now: opening that must not wait.
        descriptor = os.open("%s/%d" % (self._folder, number), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            stat = os.fstat(descriptor)
            if (stat.st_dev, stat.st_ino) != identity or stat.st_size < offset + size:
                raise FileNotFoundError("the server has closed the object, or it has become shorter")
            _catch_signal()
            return ClientInput(descriptor, offset, size)
        except ImportError:
            # Without numpy nothing tells when the last view is gone.
            return UnmappedInput(_copy(descriptor, offset, size), is_broken=False)
        finally:
            os.close(descriptor)

    def belongs_to(self, key: int) -> None:
        """Pages read since the last call belong to this request."""
        if self._read:
            self._inputs[key] = self._read
            self._read = []

    def is_lost(self, key: int) -> bool:
        return any(mapped.is_broken for mapped in self._inputs.get(key, ()))

    def settle(self, key: int) -> bool:
        """To be called before a request's end is told. False: the client has taken memory away that was in use."""
        inputs = self._inputs.pop(key, None)
        if inputs is None:
            return True
        try:
            for mapped in inputs:
                mapped.settle()
        except OSError:
            return False
        return not any(mapped.is_broken for mapped in inputs)


def own(address: int) -> None:
    """The server is about to read these pages, and no signal handler could help it."""
    for mapped in list(_mapped.values()):
        if mapped.holds(address):
            mapped.settle()


def _copy(descriptor: int, offset: int, size: int) -> memoryview:
    copy = bytearray(size)
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(offset)
        if file.readinto(copy) != size:
            raise OSError("the object has become shorter")
    return memoryview(copy)


def _map(address, size: int, flags: int, descriptor: int, offset: int) -> int:
    result = _libc().mmap(address, size, _READ_WRITE, flags, descriptor, offset)
    if result == _FAILED:
        raise OSError(ctypes.get_errno(), "cannot map %d bytes" % size)
    return result


def _unmap(start: int, size: int, _owner) -> None:
    _mapped.pop(start, None)
    _owners.pop(start, None)
    _libc().munmap(start, size)


class _Action(ctypes.Structure):
    """`struct sigaction`."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


# The handlers set before, once the signal is caught.
_before: list = []


@ctypes.PYFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def _on_signal(_number, info, _context) -> None:
    """In the thread that has touched the memory, in the middle of whatever it does: C code of numpy, mostly.

    Python's own handlers would run only after that code, which cannot go on.
    """
    address = ctypes.c_uint64.from_address(info + _ADDRESS_OF_FAULT).value
    try:
        if any(mapped.replace_from(address) for mapped in list(_mapped.values())):
            return
    except OSError:
        pass
    # Not a client's doing: it happens again at once, and then as if nobody had caught it.
    _libc().sigaction(signal.SIGBUS, ctypes.byref(_before[0]), None)


def _catch_signal() -> None:
    if _before:
        return
    before = _Action()
    _libc().sigaction(signal.SIGBUS, None, ctypes.byref(before))
    _before.append(before)
    action = _Action(handler=ctypes.cast(_on_signal, ctypes.c_void_p).value, flags=_SA_SIGINFO)
    if _libc().sigaction(signal.SIGBUS, ctypes.byref(action), None) != 0:
        raise OSError(ctypes.get_errno(), "cannot catch SIGBUS")
