-- What follows the first piece of a long discovery: written and read one by one, it never stands in memory many times.
CREATE TABLE discovery_pieces (
    server  TEXT    NOT NULL,
    number  INTEGER NOT NULL,
    payload BLOB    NOT NULL,
    PRIMARY KEY (server, number)
) STRICT;
