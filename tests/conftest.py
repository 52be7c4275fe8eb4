"""Every test is offline and quiet, on one thread so that workers don't fight for cores."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ADAPTERBANK_CACHE"] = tempfile.mkdtemp(prefix="adapterbank-tests-")
atexit.register(shutil.rmtree, os.environ["ADAPTERBANK_CACHE"], ignore_errors=True)
sys.path.insert(0, str(Path(__file__).parent))
