"""The small process that a test starts in place of ``python -m orchestrator`` (see `tests.warm`)."""

import json
import os
import signal
import socket
import sys

_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def main() -> None:
    address = os.environ.get("TESTS_WARM_SOCKET")
    if address is None:
        os.execv(sys.executable, [sys.executable, "-m", "orchestrator", *sys.argv[1:]])
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(address)
        job = {"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}
        data = json.dumps(job).encode()
        socket.send_fds(wire, [len(data).to_bytes(8, "big")], [0, 1, 2])
        wire.sendall(data)
        for number in _PASSED_ON:
            signal.signal(number, lambda number, _: wire.send(bytes([number])))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        told = wire.recv(2, socket.MSG_WAITALL)
    if len(told) < 2:
        sys.exit("the process that waits for commands has ended")
    code = int.from_bytes(told, "big", signed=True)
    if code >= 0:
        os._exit(code)
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


main()
