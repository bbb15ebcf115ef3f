//! Every number that decides the order of hits, in one place.
//!
//! They were tuned on several different collections of tools and queries at once. `cargo xtask search-eval` shows how a
//! change affects each collection.

/// The number of fields of a tool.
pub(crate) const FIELDS: usize = 6;

/// The weights of the ranking.
#[derive(Debug, Clone)]
pub(crate) struct SearchWeights {
    /// Weight of a word in each field, in the order of [`ToolField`](crate::fields::ToolField).
    pub fields: [f32; FIELDS],
    /// How much a long field reduces the weight of its words, from 0 to 1 (`b` of BM25).
    pub length: [f32; FIELDS],
    /// Expected number of words in each field.
    pub usual: [f32; FIELDS],
    /// Saturation of repeated words (`k1` of BM25).
    pub k1: f32,
    /// Share of words in the score; the rest is meaning.
    pub lexical: f32,
    /// Share of words in the score if an encoder is used as well.
    pub lexical_beside_encoder: f32,
    /// Share of the best clause in the score of a request with several clauses.
    pub clause: f32,
    /// Bonus for a tool that fits a clause which no earlier hit fits.
    pub cover: f32,
    /// Bonus for each tool of a server that fits as a whole.
    pub server: f32,
    /// Weight of a synonym.
    pub synonym: f32,
    /// Weight of a near word, multiplied by its similarity to the requested word.
    pub near: f32,
    /// Minimum similarity of a near word.
    pub least_near: f32,
    /// Weight of a guessed word for one that no tool has.
    pub guess: f32,
    /// Bonus for a name that equals the whole query, ignoring case and punctuation.
    pub same_name: f32,
    /// Bonus for a name that begins with the query.
    pub name_prefix: f32,
    /// Bonus for a word of the request that is in the tool's name and in hardly any other tool.
    pub rare_name: f32,
    /// Fraction of the mean similarity that is subtracted before meanings are compared, from 0 to 1.
    pub floor: f32,
    /// Weight of a quoted word in the meaning of a request.
    pub quoted_meaning: f32,
    /// Weight of a piece of the tool's name in the tool's meaning.
    pub name_meaning: f32,
    /// Weight of a piece of the server's name in the tool's meaning.
    pub server_meaning: f32,
    /// Weight of a piece of a parameter's name in the tool's meaning.
    pub parameter_meaning: f32,
    /// Extra weight of a piece in the first sentence of a description.
    pub opening_meaning: f32,
}

/// The weights in use.
pub(crate) const WEIGHTS: SearchWeights = SearchWeights {
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
