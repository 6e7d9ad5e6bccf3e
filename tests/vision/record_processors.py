"""Records what Pillow-based image processors of Hugging Face transformers make of images, for processors.test.ts.

Run by hand; the images are drawn anew from a fixed seed:

    python -m venv venv && venv/bin/pip install "transformers<5" pillow numpy
    venv/bin/python tests/vision/record_processors.py

images/ gets the files, processors.json.gz each processor's description and, for each image, shape and pixels (base64 of
little-endian f32).
"""

import base64
import gzip
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from transformers import (
    BlipImageProcessor,
    CLIPImageProcessor,
    LlavaImageProcessor,
    MobileViTImageProcessor,
    Qwen2VLImageProcessor,
    SiglipImageProcessor,
    ViTImageProcessor,
)
from transformers.image_utils import load_image

HERE = Path(__file__).parent
IMAGES = HERE / "images"

PROCESSORS = {
    "clip": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    "clip-large-crop": CLIPImageProcessor(size={"shortest_edge": 21}, crop_size={"height": 32, "width": 25}),
    "vit": ViTImageProcessor(size={"height": 24, "width": 40}),
    "siglip": SiglipImageProcessor(size={"height": 32, "width": 32}, resample=3),
    "blip": BlipImageProcessor(size={"height": 16, "width": 48}),
    "lanczos": ViTImageProcessor(size={"height": 30, "width": 30}, resample=1),
    "box": ViTImageProcessor(size={"height": 30, "width": 20}, resample=4),
    "hamming": ViTImageProcessor(size={"height": 30, "width": 20}, resample=5),
    "nearest": ViTImageProcessor(size={"height": 31, "width": 17}, resample=0),
    "unscaled": ViTImageProcessor(size={"height": 20, "width": 20}, do_rescale=False, do_normalize=False),
    "mobilevit": MobileViTImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 24, "width": 24}),
    "llava-pad": LlavaImageProcessor(do_pad=True, size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
    "qwen2-vl": Qwen2VLImageProcessor(patch_size=4, merge_size=2, min_pixels=256, max_pixels=2048),
}


def draw():
    """Edges, gradients and noise; each file format, mode and orientation once."""
    rng = np.random.default_rng(9)
    IMAGES.mkdir(exist_ok=True)

    def image(width, height):
        x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
        pixels = np.stack([x, y, (x + y) / 2], axis=-1) + rng.normal(0, 12, (height, width, 3))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        shapes = ImageDraw.Draw(image)
        shapes.ellipse([width // 8, height // 8, width // 2, height // 2], fill=(250, 20, 40))
        shapes.rectangle([width // 2, height // 3, width - 3, height - 5], fill=(10, 90, 240))
        return image

    image(97, 61).save(IMAGES / "wide.png")
    image(64, 64).save(IMAGES / "square.webp", lossless=True)
    image(120, 150).save(IMAGES / "photo.webp", quality=85)
    image(45, 131).save(IMAGES / "tall.jpg", quality=90)
    image(19, 14).save(IMAGES / "tiny.png")
    image(80, 50).convert("L").save(IMAGES / "gray.png")
    image(66, 40).convert("P").save(IMAGES / "palette.png")
    transparent = image(50, 70)
    transparent.putalpha(Image.fromarray(rng.integers(0, 256, (70, 50), dtype=np.uint8)))
    transparent.save(IMAGES / "transparent.png")
    turned = image(90, 60)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(IMAGES / "turned.jpg", quality=92, subsampling=0, exif=exif)
    image(60, 60).convert("L").save(IMAGES / "gray.jpg", quality=88)


def record():
    recorded = []
    files = sorted(path.name for path in IMAGES.iterdir())
    for name, processor in PROCESSORS.items():
        description = {key: value for key, value in json.loads(processor.to_json_string()).items() if value is not None}
        outputs = []
        for file in files:
            batch = processor(load_image(str(IMAGES / file)), return_tensors="np")
            pixels = np.asarray(batch["pixel_values"])
            pixels = pixels[0] if "image_grid_thw" not in batch else pixels
            outputs.append({
                "file": file,
                "shape": list(pixels.shape),
                "pixels": base64.b64encode(pixels.astype("<f4").tobytes()).decode(),
            })
        recorded.append({"name": name, "description": description, "outputs": outputs})
    text = "[\n" + ",\n".join(json.dumps(item) for item in recorded) + "\n]\n"
    (HERE / "processors.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


draw()
record()
