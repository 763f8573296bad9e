// Package budget owns the expert budget (DESIGN §7): which experts of a batch's union are computed, so that a layer reads fewer of them than its
// rows ask for. Pure: values in, decision out. It must not know how residency is measured, who computes an expert, or what reading takes.
//
// # Words
//
// A row is governed if its phase is decode or verify, or if the policy governs prefill too. Rows that aren't governed are never changed, and
// what they need is computed anyway: such an expert is present for the governed ones, as a resident one is. An expert is resident if
// all its parts are in memory, by a snapshot that is the same for all layers of a step. All others are misses. A row's mass is the sum
// of the combine weights that the router gave it; an expert's share in a row is its weight in relation to that. U is the union of the experts
// that governed rows want.
//
// # Rules
//
// A policy has one or several rules. They are applied in this order, each to what those before it left:
//
//  1. topp=P: each governed row keeps the smallest set of its experts whose share reaches P, the heaviest ones; it loses the others, whether they
//     are resident or not. It looks at nothing but the row itself: with topp alone, an answer depends neither on what is in memory nor
//     on who else is in the batch.
//  2. mass=E: misses are dropped, the ones with the least weight in the batch first (the sum over governed rows), as long as no governed row loses
//     more than the share E by this rule. A miss is dropped for all rows or for none, so it goes only if each row that wants it can
//     do without it: its own share is below E there, and what the row has lost leaves room for it. A miss that can't go doesn't
//     end the rule; others may still go.
//  3. count=N and bytes=B, at once. count: if U has more than N experts, all present ones are kept and of the misses only as many as
//     N leaves room for (none if N or more are present). bytes: no worker reads more than B bytes of misses for the layer, since a layer takes
//     as long as its slowest worker. Misses are looked at in descending order of their weight in the batch; one that is beyond a limit is
//     dropped, and with bytes a later one that is smaller, or another worker's, may still be kept.
//  4. Rescue: a governed row that would lose all its experts keeps its best one, over every limit. Rescued experts are kept for all rows that
//     want them. All rows are judged by the same set, so their order doesn't matter.
//  5. fill=M: a governed row that lost experts takes as many others in their place, if there are so many: the best of its M candidates, the experts
//     with its highest router scores, that are present or kept for another row, so that nothing is read for them. Experts that
//     topp took from the row are candidates like others: "topp=0.7,fill" reads only for what carries 70 % of a row's mass, and takes what
//     is in memory for the rest. An expert that is taken has the weight that the router would have given it beside the row's own.
//     fill alone does nothing; without a number M is twice the experts of a row.
//
// Then the weights of a row that has changed are rescaled to the row's mass, if the model normalises its top-k probabilities (norm_topk_prob), unless
// the policy is unscaled; else they stay as they are, bit for bit: rescaling ruins models that don't normalise (docs/budget.md).
//
// # Decisions are reproducible
//
// A decision is a function of rows, weights, candidates, phases, residency and policy, by plain float64 arithmetic in a fixed order: the same
// tokens with the same snapshot give the same selection on every machine, in a draft and in its check. Ties go to the lower id; a
// NaN is the last of all weights, and the experts of a row whose mass is not a positive number are no shares that could be small.
package budget
