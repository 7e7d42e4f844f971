"""What every test needs."""

import signal

# A shell starts its background jobs with SIGINT ignored, and children inherit that: then no
# Ctrl-C of these tests would arrive.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
