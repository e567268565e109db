"""Starter controller: holds the arm in its stowed pose and the wheels still."""


class HoldStow:
    def reset(self, context, seed):
        self.command = context["ctrl"].copy()

    def act(self, obs):
        return self.command


def make_controller():
    return HoldStow()
