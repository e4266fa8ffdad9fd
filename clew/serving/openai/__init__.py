"""The routes that clients of OpenAI's API use, answered by the same runs. Not the API itself: what a run cannot do is refused."""
