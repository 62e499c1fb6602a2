"""Follows a journal of readings until it ends, and says what comes; examples/journal/append.py.

python examples/journal/follow.py data/readings
"""

import sys

import pyarrow.compute as pc

import gapless as gl


def main(path: str) -> None:
    """Prints a line a frame, and at the end where to go on."""
    with gl.JournalReader(path, columns=["sensor", "celsius"], frame_rows=1_000) as reader:
        for frame in reader.follow():
            mean = pc.mean(frame.payload.column("celsius")).as_py() if len(frame) else None
            print(f"{len(frame)} rows, mean {mean}, stable {frame.stable}")
        print(f"the end, at {reader.position}")


if __name__ == "__main__":
    main(sys.argv[1])
