"""Records features of sound by WhisperFeatureExtractor for log-mel.test.ts: sums over bands and single numbers of whole windows.

Run by hand:

    python -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/parity/record_whisper_features.py
"""

import json
from pathlib import Path

import numpy
from transformers import WhisperFeatureExtractor

FILE = Path(__file__).parent / "whisper-features.json"
# name: (bands, seconds of a window, seconds of sound)
SPECS = {"short": (80, 30, 2.5), "whole": (128, 2, 2.0), "cut": (16, 1, 1.4)}


def sound(seconds):
    """Tones whose pitch rises, and noise from a linear congruential generator."""
    count = round(seconds * 16000)
    state, noise = 7, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        noise.append(state / 2**31 - 1)
    t = numpy.arange(count) / 16000
    tones = numpy.sin(2 * numpy.pi * (200 + 900 * t) * t) + 0.4 * numpy.sin(2 * numpy.pi * 3100 * t)
    return (0.3 * tones + 0.01 * numpy.array(noise)).astype(numpy.float32)


if __name__ == "__main__":
    recorded = {}
    for name, (bands, window, seconds) in SPECS.items():
        extractor = WhisperFeatureExtractor(feature_size=bands, chunk_length=window)
        features = extractor(sound(seconds), sampling_rate=16000, return_tensors="np").input_features[0].T
        rows = sorted({0, 1, 2, 50, features.shape[0] // 2, features.shape[0] - 2, features.shape[0] - 1})
        recorded[name] = dict(bands=bands, window=window, seconds=seconds, numFrames=features.shape[0], rows=rows,
                              values=[[round(float(x), 6) for x in features[row]] for row in rows],
                              means=[round(float(x), 6) for x in features.mean(axis=0)])
    FILE.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
    print(FILE.stat().st_size, "bytes")
