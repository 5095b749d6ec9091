"""Makes and checks bodies of any length that are different at every place, as ../go/pattern does."""

BLOCK = 64 * 1024
REST = bytes(((i * 7 + (i >> 8)) | 1) & 0xFF for i in range(BLOCK))[8:]


def make(length):
    """Pieces of the first `length` bytes."""
    for at in range(0, length, BLOCK):
        yield ((at // BLOCK).to_bytes(8, "big") + REST)[: length - at]


class Check:
    """Takes pieces; `total` is how many bytes came. ValueError where they are not the pattern."""

    def __init__(self):
        self.total = 0

    def take(self, piece):
        while piece:
            number, inside = divmod(self.total, BLOCK)
            want = (number.to_bytes(8, "big") + REST)[inside : inside + len(piece)]
            if piece[: len(want)] != want:
                raise ValueError(f"wrong bytes after byte {self.total}")
            self.total += len(want)
            piece = piece[len(want) :]
