from clew.data.caption_files import Captioned, read_captions
from clew.data.notes import Notes
from tests.data.written import refusal, write


def test_photographs_get_their_captions_in_order(tmp_path):
    captions = write(tmp_path / "token.txt", "a.jpg#1\tA dog .\nb.jpg#0\tA cat .\na.jpg#0\tTwo #2 dogs .\n\nc.jpg.1@0@A bird @ sea .\n")
    images = write(tmp_path / "train.txt", "a.jpg\n\nc.jpg.1\n")
    assert list(read_captions(captions, images)) == [
        Captioned("a.jpg", ("Two #2 dogs .", "A dog ."), f"{images}:1"),
        Captioned("c.jpg.1", ("A bird @ sea .",), f"{images}:3"),
    ]


def test_what_does_not_fit_is_a_fault(tmp_path):
    captions = write(tmp_path / "token.txt", "a.jpg#1\tA dog .\nnonsense\n")
    images = write(tmp_path / "train.txt", "a.jpg\nz.jpg\n")
    assert refusal(lambda: read_captions(captions, images)).startswith(
        f"{captions}:2: expected photograph#number, a tab and a caption; mend it"
    )
    notes = Notes(faults="skip")
    assert [captioned.image for captioned in read_captions(captions, images, notes=notes)] == ["a.jpg"]
    assert notes.sentences[1] == f"{images}:2: the photograph z.jpg has no caption in {captions}"
