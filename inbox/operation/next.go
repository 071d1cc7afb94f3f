package operation

// Next says what the caller of an operation should do now. It is part of every result and of every answer without
// one: never change a value.
type Next string

// What a caller may do next. The set is closed.
const (
	// NextUseResult means that the operation is done: take its result.
	NextUseResult Next = "use_result"
	// NextWait means that the result is not there yet: ask at the Location, or repeat the same call under the same key.
	NextWait Next = "wait"
	// NextRepeat means that nothing was answered: repeat the same call under the same key.
	NextRepeat Next = "repeat"
	// NextResume means that something certainly did not happen and may happen now: make the same call under a new key,
	// and name this one in Oncegate-Resumes. What has happened is left out.
	NextResume Next = "resume"
	// NextReplace means that the same call ends the same way: if something is still wanted, make another call under a
	// new key, and name this one in Oncegate-Instead-Of. All of it is carried out.
	NextReplace Next = "replace"
	// NextCorrect means that nothing was recorded: correct the call, and make it under the same key.
	NextCorrect Next = "correct"
	// NextStop means that the credential cannot make the call: do not repeat it.
	NextStop Next = "stop"
	// NextAskOperator means that a person or a probe has to decide: do not call again under another key.
	NextAskOperator Next = "ask_operator"
)

// NextMeaning is a row of the table of what a caller may do next.
type NextMeaning struct {
	Next    Next   `json:"next"`
	Meaning string `json:"meaning"`
}

// NextMeanings are all values of [Next], each in a sentence for people and models.
func NextMeanings() []NextMeaning {
	return []NextMeaning{
		{NextUseResult, "The operation is done. Take its result, and do not call again."},
		{NextWait, "There is no result yet. Ask at the Location, or repeat the same call under the same key, after Retry-After. Never call under a new key."},
		{NextRepeat, "Repeat the same call under the same key, after Retry-After. Never call under a new key."},
		{NextResume, "Make the same call under a new key and name this call in Oncegate-Resumes. What has happened is left out, and what certainly did not happen is done."},
		{NextReplace, "The same call would end the same way. If something is still wanted, call under a new key, perhaps with another payload, and name this call in Oncegate-Instead-Of. All of the new call is done."},
		{NextCorrect, "Nothing was recorded. Correct the call as the answer says, and make it under the same key."},
		{NextStop, "The credential cannot make this call. Do not repeat it."},
		{NextAskOperator, "The outcome is unknown, or a person has to correct something first. Do not call again under another key. Ask the operator, and ask at the Location later."},
	}
}

// next is what the caller should do with the result. It never leads to a second execution: a person decides about
// effects that may have happened, and about a list that an earlier call has done in part and this one did not continue. An
// operation that happened in part is resumed.
func (o *EventOutcome) next(status ResultStatus) Next {
	switch {
	case status == ResultDone:
		return NextUseResult
	case status == ResultIndeterminate, o.taken == 0, o.parted > 0:
		return NextAskOperator
	case o.final == 0:
		return NextResume
	case status == ResultFailed:
		return NextReplace
	}
	return NextAskOperator // a part has happened, and the rest cannot: a new call would do the part again
}
