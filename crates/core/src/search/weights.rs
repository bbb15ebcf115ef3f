//! Every number that decides on the order of hits, in one place.
//!
//! They were chosen on several unlike collections of tools and queries at once; `cargo xtask search-eval`
//! shows what a change of one does to each of them.

/// How many fields a tool's text has.
pub(super) const FIELDS: usize = 6;

/// The numbers.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// What a word counts in each field, in the order of [`Field`](super::fields::Field).
    pub fields: [f32; FIELDS],
    /// How much a long field takes away from each of its words, from 0 to 1.
    pub length: [f32; FIELDS],
    /// How many words each field is expected to have.
    pub usual: [f32; FIELDS],
    /// How fast a word that is said again counts less.
    pub k1: f32,
    /// The share of words in the score; the rest is that of meaning.
    pub lexical: f32,
    /// The same where an encoder speaks of meaning, too.
    pub lexical_beside_encoder: f32,
    /// The share of the best clause in the score of a request of several clauses.
    pub clause: f32,
    /// What a tool gains by meeting a clause that no hit before it meets.
    pub cover: f32,
    /// What the server's fit adds to each of its tools.
    pub server: f32,
    /// What a word of the same sense counts.
    pub synonym: f32,
    /// What a near word counts, times how like it is to the word that was asked for.
    pub near: f32,
    /// How like a near word is at least.
    pub least_near: f32,
    /// What a word counts that an unknown one may have meant.
    pub guess: f32,
    /// What a name adds that is the whole query in other letters.
    pub same_name: f32,
    /// What a name adds that begins with the query.
    pub name_prefix: f32,
    /// What a word of the request adds that stands in the tool's name and in hardly any other tool.
    pub rare_name: f32,
    /// How much of the usual likeness of texts is taken off before meanings are compared, from 0 to 1.
    pub floor: f32,
    /// How much a word counts in a request's meaning that stands in quotes.
    pub quoted_meaning: f32,
    /// How much a piece of a tool's name counts in the tool's meaning.
    pub name_meaning: f32,
    /// How much a piece of a server's name counts in the tool's meaning.
    pub server_meaning: f32,
    /// How much a piece of a parameter's name counts in the tool's meaning.
    pub parameter_meaning: f32,
    /// How much more a piece of the first sentence of a description counts than one of the others.
    pub opening_meaning: f32,
}

/// The numbers in use.
pub(super) const WEIGHTS: Weights = Weights {
    fields: [3.0, 1.0, 1.0, 0.5, 0.5, 0.5],
    length: [0.5, 0.3, 0.75, 0.75, 0.75, 0.75],
    usual: [3.0, 2.0, 25.0, 5.0, 30.0, 20.0],
    k1: 1.2,
    lexical: 0.4,
    lexical_beside_encoder: 0.3,
    clause: 0.3,
    cover: 0.1,
    server: 0.2,
    synonym: 0.3,
    near: 0.5,
    least_near: 0.45,
    guess: 0.6,
    same_name: 0.3,
    name_prefix: 0.15,
    rare_name: 0.08,
    floor: 0.5,
    quoted_meaning: 0.5,
    name_meaning: 2.0,
    server_meaning: 1.0,
    parameter_meaning: 0.5,
    opening_meaning: 1.0,
};
