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


def test_what_a_writer_cannot_write_is_named(tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match="add_embedding"):
        writer.add_embedding(brisk.zeros(2, 2))
