"""What every test needs."""

import os
import signal
import tempfile

# A shell starts its background jobs with SIGINT ignored, and children inherit that: then no
# Ctrl-C of these tests would arrive.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The key that signs recorded outputs lies in the user's data folder: not in this user's own.
if "DURABLE_TESTS_DATA" not in os.environ:
    os.environ["DURABLE_TESTS_DATA"] = tempfile.mkdtemp(prefix="durable-nb-tests-")
os.environ["XDG_DATA_HOME"] = os.environ["DURABLE_TESTS_DATA"]
