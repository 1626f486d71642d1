"""SummaryWriter: numbers, texts, histograms, pictures, sound, embeddings in files that TensorBoard reads.

An event file is a row of records, each with its length and two checksums; a record is an Event in protocol buffers'
encoding, of which the few fields needed are written here. Neither tensorboard nor protobuf need be installed. A record
is handed to the operating system whole, so a reader meets no half of one but at the end of a file still being written.
"""

import os
import socket
import struct
import time
import zlib

from brisk._C import Tensor

__all__ = ["SummaryWriter"]

# --- protocol buffers: a message is its fields, one after the other, each with its number and kind -------------------


def _varint(n):
    n &= (1 << 64) - 1  # a negative step is written as its two's complement
    digits = bytearray()
    while n > 0x7F:
        digits.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*digits, n])


def _integer(field, n):
    return _varint(field << 3) + _varint(int(n))


def _double(field, x):
    return _varint(field << 3 | 1) + struct.pack("<d", x)


def _float(field, x):
    return _varint(field << 3 | 5) + struct.pack("<f", x)


def _bytes(field, content):
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _doubles(field, values):
    return _bytes(field, struct.pack(f"<{len(values)}d", *values))


def _metadata(plugin):
    return _bytes(9, _bytes(1, _bytes(1, plugin)))


# --- records ---------------------------------------------------------------------------------------------------------


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def _checksum(content):
    """CRC-32C, turned and shifted as the format asks."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(event):
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


class _EventFile:
    _made = 0

    def __init__(self, directory, suffix):
        os.makedirs(directory, exist_ok=True)
        _EventFile._made += 1
        unique = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{_EventFile._made - 1}"
        path = os.path.join(directory, f"events.out.tfevents.{unique}{suffix}")
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115  (closed by close())
        self.file.write(_record(_double(1, time.time()) + _bytes(3, "brain.Event:2")))

    def write(self, value, step, walltime):
        event = _double(1, time.time() if walltime is None else walltime)
        if step is not None:
            event += _integer(2, step)
        self.file.write(_record(event + _bytes(5, _bytes(1, value))))


# --- values ----------------------------------------------------------------------------------------------------------


def _array(values):
    import numpy as np

    return values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _number(value):
    value = _array(value)
    if value.size != 1:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {value.size}")
    return float(value.reshape(()))


def _edges():
    """TensorBoard's own buckets: from 1e-12 on, each a tenth wider than the one before, to both sides of zero."""
    positive, edge = [], 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [-x for x in reversed(positive)] + [0.0] + positive


def _histogram(values, bins):
    """HistogramProto: the buckets from the first to the last that is not empty, and an empty one before them."""
    import numpy as np

    values = _array(values).reshape(-1).astype(np.float64)
    if not values.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=_edges() if bins == "tensorflow" else bins)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("no value lies in a bin")
    first, last = filled[0], filled[-1]
    counts, limits = [0.0, *counts[first : last + 1]], limits[first : last + 2]
    numbers = values.min(), values.max(), values.size, values.sum(), values.dot(values)
    written = b"".join(_double(field, number) for field, number in enumerate(numbers, 1))
    return written + _doubles(6, limits) + _doubles(7, counts)


def _png(pixels):
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    colour = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        parts += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return parts


def _pixels(pixels, dataformats):
    """Bytes, height by width by three or four channels, of floats in [0, 1] or bytes."""
    import numpy as np

    pixels = _array(pixels)
    if pixels.ndim != len(dataformats):
        raise AssertionError(f"size of input tensor and input format are different: {pixels.shape}, {dataformats}")
    names = dataformats.upper()
    pixels = pixels[..., None] if "C" not in names else pixels.transpose([names.index(c) for c in "HWC"])
    if "C" not in names:
        pixels = pixels.transpose([names.index("H"), names.index("W"), 2]).repeat(3, axis=2)
    if pixels.dtype != np.uint8:
        pixels = (pixels.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    return pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels


def _image(pixels, dataformats):
    """Summary.Image of a picture whose dimensions are named by dataformats."""
    pixels = _pixels(pixels, dataformats)
    height, width, channels = pixels.shape
    return _integer(1, height) + _integer(2, width) + _integer(3, channels) + _bytes(4, _png(pixels))


def _grid(pictures, dataformats, square=False):
    """Pictures of one size in one: rows of eight, or as many as make a square. HWC."""
    import numpy as np

    pictures, names = _array(pictures), dataformats.upper()
    if pictures.ndim != len(names):
        raise AssertionError(f"size of input tensor and input format are different: {pictures.shape}, {dataformats}")
    if "C" not in names:
        pictures, names = pictures[..., None], names + "C"
    pictures = pictures.transpose([names.index(c) for c in "NHWC"])
    count, height, width, channels = pictures.shape
    across = int(np.ceil(count**0.5)) if square else min(count, 8)
    down = across if square else -(-count // across)
    canvas = np.zeros((down * height, across * width, channels), pictures.dtype)
    for n, picture in enumerate(pictures):
        top, left = n // across * height, n % across * width
        canvas[top : top + height, left : left + width] = picture
    return canvas


def _drawn(figure, close):
    """The pixels of a figure of matplotlib, HWC."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    if close:
        import matplotlib.pyplot as plt

        plt.close(figure)
    return pixels


def _precision_and_recall(labels, predictions, thresholds, weights):
    """(6, thresholds): true and false positives, true and false negatives, precision, recall."""
    import numpy as np

    labels, predictions = labels.reshape(-1).astype(bool), predictions.reshape(-1)
    weights = np.ones(labels.shape) if weights is None else np.broadcast_to(_array(weights), labels.shape)
    bucket = np.clip(np.floor(predictions * (thresholds - 1)), 0, thresholds - 1).astype(int)
    true, false = (
        np.bincount(bucket, weights * chosen, thresholds)[::-1].cumsum()[::-1] for chosen in (labels, ~labels)
    )
    missed, right = true[0] - true, false[0] - false
    precision, recall = true / np.maximum(1e-7, true + false), true / np.maximum(1e-7, true + missed)
    return np.stack([true, false, right, missed, precision, recall])


def _write_rows(path, rows):
    """A table, columns by tabs."""
    with open(path, "w", encoding="utf-8") as f:
        f.writelines("\t".join(map(str, row)) + "\n" for row in rows)


class SummaryWriter:
    """Writes what a training program tells into an event file under log_dir (runs/<time>_<host> when not given).

    Numbers, texts, histograms, pictures and figures, sound, curves of precision and recall, embeddings, and parameters
    of a run. Graphs, meshes and videos raise NotImplementedError."""

    def __init__(
        self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""
    ):  # a record is written at once: max_queue and flush_secs have nothing to delay
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)
        self.log_dir, self.filename_suffix = str(log_dir), filename_suffix
        self._files = {}
        if purge_step is not None:  # SessionLog.START: readers forget what an earlier file says from that step on
            event = _double(1, time.time()) + _integer(2, purge_step) + _bytes(7, _integer(1, 1))
            self._file(self.log_dir).file.write(_record(event))
        else:
            self._file(self.log_dir)

    def _file(self, directory):
        if directory not in self._files:
            self._files[directory] = _EventFile(directory, self.filename_suffix)
        return self._files[directory]

    def _write(self, tag, content, step, walltime, directory=None):
        self._file(directory or self.log_dir).write(_bytes(1, tag) + content, step, walltime)

    def get_logdir(self):
        """The directory of the event files."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number; with new_style as a tensor, which may be of double_precision."""
        number = _number(scalar_value)
        if new_style and double_precision:
            content = _metadata("scalars") + _bytes(8, _integer(1, 2) + _doubles(6, [number]))
        elif new_style:
            content = _metadata("scalars") + _bytes(8, _integer(1, 1) + _bytes(5, struct.pack("<f", number)))
        else:
            content = _float(2, number)
        self._write(tag, content, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers to be drawn together: each in a directory of its own."""
        for tag, value in tag_scalar_dict.items():
            directory = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            self._write(main_tag, _float(2, _number(value)), global_step, walltime, directory)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text, which TensorBoard shows as Markdown."""
        shape = _bytes(2, _bytes(2, _integer(1, 1)))
        content = _metadata("text") + _bytes(8, _integer(1, 7) + shape + _bytes(8, text_string))
        self._write(tag + "/text_summary", content, global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How the values are distributed; bins as numpy.histogram takes them."""
        if max_bins is not None:
            raise NotImplementedError("add_histogram: max_bins is not there; bins may be a number")
        self._write(tag, _bytes(5, _histogram(values, bins)), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture of floats in [0, 1] or of bytes."""
        self._write(tag, _bytes(4, _image(img_tensor, dataformats)), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Pictures of one size, side by side in one."""
        self._write(tag, _bytes(4, _image(_grid(img_tensor, dataformats), "HWC")), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or a list of them, as a picture."""
        if not isinstance(figure, (list, tuple)):
            return self.add_image(tag, _drawn(figure, close), global_step, walltime, "HWC")
        import numpy as np

        drawn = np.stack([_drawn(one, close) for one in figure])
        return self.add_images(tag, drawn, global_step, walltime, "NHWC")

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound of one channel, between -1 and 1, with 16 bits a sample."""
        samples = (_array(snd_tensor).reshape(-1).clip(-1, 1) * 32767).astype("<i2").tobytes()
        shape = (16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
        head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", *shape)
        wav = head + struct.pack("<4sI", b"data", len(samples)) + samples
        sound = _float(1, sample_rate) + _integer(2, 1) + _integer(3, len(samples) // 2) + _bytes(4, wav)
        self._write(tag, _bytes(6, sound + _bytes(5, "audio/wav")), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision and recall of predictions in [0, 1] of labels that are 0 or 1, at thresholds between."""
        rows = _precision_and_recall(_array(labels), _array(predictions), min(num_thresholds, 127), weights)
        size = b"".join(_bytes(2, _integer(1, n)) for n in rows.shape)
        content = struct.pack(f"<{rows.size}f", *rows.reshape(-1))
        plugin = _bytes(9, _bytes(1, _bytes(1, "pr_curves") + _bytes(2, _integer(1, 0) + _integer(2, rows.shape[1]))))
        tensor = _bytes(8, _integer(1, 1) + _bytes(2, size) + _bytes(5, content))
        self._write(tag, plugin + tensor, global_step, walltime)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points for the projector: tables beside the event file, and an entry in projector_config.pbtxt."""
        points, step = _array(mat), f"{0 if global_step is None else global_step:05}"
        if points.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        where = f"{step}/{tag.replace('/', '_')}"
        folder = os.path.join(self.log_dir, where)
        os.makedirs(folder, exist_ok=True)
        entry = [f'tensor_name: "{tag}:{step}"', f'tensor_path: "{where}/tensors.tsv"']
        _write_rows(os.path.join(folder, "tensors.tsv"), points.tolist())
        if metadata is not None:
            rows = [metadata_header, *metadata] if metadata_header else [[label] for label in metadata]
            _write_rows(os.path.join(folder, "metadata.tsv"), rows)
            entry.append(f'metadata_path: "{where}/metadata.tsv"')
        if label_img is not None:
            with open(os.path.join(folder, "sprite.png"), "wb") as f:
                f.write(_png(_pixels(_grid(label_img, "NCHW", square=True), "HWC")))
            sides = "".join(f" single_image_dim: {n}" for n in _array(label_img).shape[:1:-1])
            entry.append(f'sprite {{ image_path: "{where}/sprite.png"{sides} }}')
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a") as f:
            f.write("embeddings {\n  " + "\n  ".join(entry) + "\n}\n")

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """The parameters of a run as a text, and what it came to as numbers, in a directory of their own."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        folder = os.path.join(self.log_dir, str(time.time()) if run_name is None else run_name)
        table = "".join(f"| {name} | {value} |\n" for name, value in hparam_dict.items())
        with SummaryWriter(folder) as writer:
            writer.add_text("hparams", "| parameter | value |\n|---|---|\n" + table, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Not there: a model runs as it is written, and no graph of it is kept."""
        raise NotImplementedError("SummaryWriter.add_graph is not there: no graph of a model is kept; see add_text")

    def flush(self):
        """Every record is with the operating system already; this has them put on the disk."""
        for one in self._files.values():
            os.fsync(one.file.fileno())

    def close(self):
        """Closes the files; what is added later goes into new ones."""
        for one in self._files.values():
            one.file.close()
        self._files = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __getattr__(self, name):
        if name.startswith("add_"):
            raise NotImplementedError(f"SummaryWriter.{name} is not there: see add_scalar, add_text, add_image")
        raise AttributeError(f"'SummaryWriter' object has no attribute '{name}'")
