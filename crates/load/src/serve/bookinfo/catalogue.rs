//! The two books of the sample, what readers say of them, and the stars that they gave. Ids are
//! those of the original's first rows, so that its requests find the same here. Plain data.

/// A book, and what is said about it.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) author: &'static str,
    pub(super) year: &'static str,
    pub(super) pages: u16,
    pub(super) publisher: &'static str,
    pub(super) language: &'static str,
    pub(super) summary: &'static str,
    pub(super) opinions: &'static [Opinion],
}

/// What a reader wrote.
#[derive(Debug)]
pub(super) struct Opinion {
    pub(super) reviewer_id: &'static str,
    pub(super) reviewer: &'static str,
    pub(super) text: &'static str,
}

/// A row of the ratings: id, reviewer, product, stars.
pub(super) type Row = (&'static str, &'static str, &'static str, u8);

const ALMA: &str = "449e3589-abab-4de0-8ced-239fee452d41";
const JONAS: &str = "7a0d2a53-6c53-4a52-9d4d-0c7f5e1f8a11";

/// All there are. The first is the one that is shown where none is asked for.
pub(super) const BOOKS: &[Book] = &[
    Book {
        id: "2099a055-1e21-46ef-825e-9e0de93554ea",
        title: "Silas Marner: The Weaver of Raveloe",
        author: "George Eliot",
        year: "1861",
        pages: 364,
        publisher: "William Blackwood and Sons",
        language: "English",
        summary: "A linen weaver, robbed of the gold he lived for, finds a child at his hearth \
                  on a winter night, and with her a way back among people.",
        opinions: &[
            Opinion {
                reviewer_id: ALMA,
                reviewer: "Alma",
                text: "Short, warm and wise. The loom is never far away.",
            },
            Opinion {
                reviewer_id: JONAS,
                reviewer: "Jonas",
                text: "Slow to begin, and then it does not let go. Read it in winter.",
            },
        ],
    },
    Book {
        id: "a071c269-369c-4f79-be03-6a41f27d6b5f",
        title: "The Odyssey",
        author: "Homer",
        year: "about 700 BC",
        pages: 541,
        publisher: "handed down",
        language: "Greek",
        summary: "Ten years of a way home, while Penelope weaves by day and unravels by night.",
        opinions: &[Opinion {
            reviewer_id: ALMA,
            reviewer: "Alma",
            text: "Too many detours. One star for the dog.",
        }],
    },
];

/// The ratings that there are from the start.
pub(super) const ROWS: &[Row] = &[
    (
        "160d4b28-3362-4f11-a82a-8f7b14d7fbdf",
        ALMA,
        "2099a055-1e21-46ef-825e-9e0de93554ea",
        5,
    ),
    (
        "5c1f0a7e-93b8-4b1d-8d5e-2f6f4c0b7a92",
        ALMA,
        "a071c269-369c-4f79-be03-6a41f27d6b5f",
        1,
    ),
];

/// The book with this id.
pub(super) fn find(id: &str) -> Option<&'static Book> {
    BOOKS.iter().find(|book| book.id == id)
}
