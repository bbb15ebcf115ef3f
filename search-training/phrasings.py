"""Words that people put around a request. They were written for this training and come from no set of queries."""

OPENINGS = """
i want to|i would like to|i need to|i have to|can you|could you|could you please|please|help me
can you help me to|how do i|how can i|is there a way to|is it possible to|what is the best way to
i am trying to|i am looking for a way to|i am looking for|show me|tell me|give me|find me|hi, can you
hello, i need|hey, could you|we want to|we need to|let us|my team needs to|my boss asked me to
for my project i need to|for school i have to|before my trip i want to|my friend told me to
i was wondering how to|do you know how to|i forgot how to|i am new here and want to|it would be great to
would you mind helping me|i am planning to|next i want to|what can i use to|which one can|i need something to
is there anything that can|i need some help with|i need information about|i want to know|i want to learn about
can i get|where can i find|what do you know about|any idea how to|use it to|then
""".replace("\n", "|").strip("|").split("|")

CLOSINGS = """
please|thanks|thank you|for me|for my team|for my family|for a friend|for my company|today|tomorrow|this week
next month|as soon as possible|if possible|and show me the result|and tell me what you found
so that i can use it later|in a simple way|because i am busy|i do not know where to start|what do you suggest
can you do that|any help is welcome|and keep it short|before the meeting|for the weekend|right now|and save it
step by step|with all details
""".replace("\n", "|").strip("|").split("|")
