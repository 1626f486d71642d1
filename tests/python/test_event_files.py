"""Event files: what SummaryWriter writes is what the format says, record by record."""

import struct
import zlib

import brisk
import pytest
from brisk.utils.tensorboard import SummaryWriter, _checksum


def records(directory):
    """The records of the only event file there, their lengths and checksums checked."""
    (file,) = directory.glob("events.out.tfevents.*")
    content, found = file.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert content[8:12] == _checksum(content[:8])
        found.append(content[12 : 12 + length])
        assert content[12 + length : 16 + length] == _checksum(found[-1])
        content = content[16 + length :]
    return found


def fields(message):
    """{number of a field: its values} of a message of protocol buffers."""
    found = {}

    def varint():
        nonlocal message
        value = shift = 0
        while True:
            byte, message = message[0], message[1:]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while message:
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(key & 7) or varint()
            value, message = message[:length], message[length:]
        found.setdefault(key >> 3, []).append(value)
    return found


def values(directory):
    """(tag, step, fields of the value) of each record but the first."""
    first, *others = (fields(r) for r in records(directory))
    assert first[3] == [b"brain.Event:2"]
    for event in others:
        value = fields(fields(event[5][0])[1][0])
        yield value[1][0].decode(), event.get(2, [None])[0], value


def test_the_checksum_is_crc32c_as_the_format_turns_it():
    crc = 0xE3069283  # of these nine digits, by the standard
    turned = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert _checksum(b"123456789") == struct.pack("<I", turned)


def test_numbers_are_written_with_their_tags_and_steps(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", brisk.tensor([0.5]), 3)
        writer.add_scalar("loss", 2, 300)
        writer.add_scalar("exact", 1 / 3, new_style=True, double_precision=True)
    (a, b, c) = values(tmp_path)
    assert a[:2] == ("loss", 3) and struct.unpack("<f", a[2][2][0]) == (0.5,)
    assert b[:2] == ("loss", 300) and struct.unpack("<f", b[2][2][0]) == (2.0,)
    assert c[:2] == ("exact", None) and struct.unpack("<d", fields(c[2][8][0])[6][0]) == (1 / 3,)


def test_numbers_to_be_drawn_together_stand_in_directories_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("a/b", {"x": 1, "y": 2}, 1)
    for name, number in (("x", 1.0), ("y", 2.0)):
        ((tag, step, value),) = values(tmp_path / f"a_b_{name}")
        assert (tag, step) == ("a/b", 1) and struct.unpack("<f", value[2][0]) == (number,)


def test_texts_are_tensors_of_one_string(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("note", "häuser", 1)
    ((tag, _, value),) = values(tmp_path)
    assert tag == "note/text_summary" and fields(value[8][0])[8] == ["häuser".encode()]


def test_a_histogram_counts_every_value_between_its_limits(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("w", brisk.tensor([-1.0, 0.5, 0.5, 2.0]), 1)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("w", brisk.zeros(0), 1)
    ((_, _, value),) = values(tmp_path)
    histogram = fields(value[5][0])
    low, high, count, total, squares = (struct.unpack("<d", histogram[i][0])[0] for i in range(1, 6))
    assert (low, high, count, total, squares) == (-1, 2, 4, 2, 5.5)
    limits, counts = (struct.unpack(f"<{len(histogram[i][0]) // 8}d", histogram[i][0]) for i in (6, 7))
    assert sum(counts) == 4 and counts[0] == 0 and counts[-1] == 1 and len(limits) == len(counts)
    assert limits[0] <= -1 and limits[-1] >= 2


@pytest.mark.parametrize("shape, formats", [((3, 4, 5), "CHW"), ((4, 5, 3), "HWC"), ((5, 4), "WH"), ((1, 4, 5), "CHW")])
def test_a_picture_is_a_png_of_its_pixels(tmp_path, shape, formats):
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("p", brisk.full(shape, 0.5), 1, dataformats=formats)
    ((_, _, value),) = values(tmp_path)
    picture = fields(value[4][0])
    assert [picture[i] for i in (1, 2, 3)] == [[4], [5], [3]]
    png = picture[4][0]
    (length,) = struct.unpack(">I", png[33:37])
    assert png[37:41] == b"IDAT" and zlib.decompress(png[41 : 41 + length]) == (b"\0" + b"\x7f" * 15) * 4


def picture_of(value):
    """(height, width, the bytes of the rows) of a PNG in an event."""
    picture = fields(value[4][0])
    png = picture[4][0]
    (length,) = struct.unpack(">I", png[33:37])
    return picture[1][0], picture[2][0], zlib.decompress(png[41 : 41 + length])


def test_pictures_of_one_size_stand_side_by_side(tmp_path):
    shades = brisk.tensor([0.0, 1.0, 0.5]).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    with SummaryWriter(tmp_path) as writer:
        writer.add_images("p", shades, 1)
    ((_, _, value),) = values(tmp_path)
    row = b"\0" + b"\0" * 6 + b"\xff" * 6 + b"\x7f" * 6
    assert picture_of(value) == (2, 6, row * 2)


def test_a_figure_is_drawn_and_closed(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = plt.figure(figsize=(2, 1), dpi=50, facecolor="red")
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("f", figure, 1)
    ((_, _, value),) = values(tmp_path)
    assert picture_of(value) == (50, 100, (b"\0" + b"\xff\0\0" * 100) * 50)
    assert not plt.fignum_exists(figure.number)


def test_sound_is_a_wav_file(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("s", brisk.tensor([[0.0, 1.0, -1.0, 3.0]]), 1, sample_rate=8000)
    ((_, _, value),) = values(tmp_path)
    sound = fields(value[6][0])
    assert struct.unpack("<f", sound[1][0]) == (8000.0,) and sound[3] == [4] and sound[5] == [b"audio/wav"]
    wav = sound[4][0]
    assert wav[:4] == b"RIFF" and wav[8:16] == b"WAVEfmt "
    assert struct.unpack("<4h", wav[44:]) == (0, 32767, -32767, 32767)


def test_a_curve_of_precision_and_recall_counts_at_every_threshold(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("c", brisk.tensor([1, 0, 1, 0]), brisk.tensor([0.9, 0.8, 0.3, 0.1]), 1, num_thresholds=3)
    ((_, _, value),) = values(tmp_path)
    numbers = struct.unpack("<18f", fields(value[8][0])[5][0])
    true, false, right, missed, precision, recall = (list(numbers[i : i + 3]) for i in range(0, 18, 3))
    assert (true, false, right, missed) == ([2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2])
    assert precision == [0.5, 0.5, 0] and recall == [1, 0.5, 0]


def test_an_embedding_is_a_table_that_the_projector_finds(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        points = brisk.tensor([[1.0, 2.0], [3.5, 4.0]])
        writer.add_embedding(points, ["a", "b"], brisk.zeros(2, 3, 4, 5), global_step=7, tag="words")
        writer.add_embedding(points, [["a", 1], ["b", 2]], metadata_header=["name", "n"])
        with pytest.raises(AssertionError, match="#labels"):
            writer.add_embedding(points, ["a"])
    assert (tmp_path / "00007/words/tensors.tsv").read_text() == "1.0\t2.0\n3.5\t4.0\n"
    assert (tmp_path / "00007/words/metadata.tsv").read_text() == "a\nb\n"
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "name\tn\na\t1\nb\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and 'tensor_path: "00007/words/tensors.tsv"' in config
    sprite = (tmp_path / "00007/words/sprite.png").read_bytes()
    assert struct.unpack(">II", sprite[16:24]) == (10, 8) and "single_image_dim: 5 single_image_dim: 4" in config


def test_the_parameters_of_a_run_are_kept_with_what_it_came_to(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1}, {"loss": 0.5}, run_name="one")
    text, loss = values(tmp_path / "one")
    assert b"| lr | 0.1 |" in fields(text[2][8][0])[8][0] and loss[0] == "loss"


@pytest.mark.parametrize("name", ["add_graph", "add_mesh", "add_video"])
def test_what_a_writer_cannot_write_is_named(tmp_path, name):
    with SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match=name):
        getattr(writer, name)("tag", None)
