"""How many steps an episode of each BabyAI level gets: two and a half times what the bot needs, and 32 at least.

Measured with minigrid 3.2 on eight seeds of each level. In those left out the bot fails: `KeyInBox` (it does
not look into boxes), `OpenDoorsOrderN2Debug` and `OpenDoorsOrderN4Debug` (a door too early ends the episode), and now
and then `GoToImpUnlock` and `UnlockToUnlock`.
"""

from __future__ import annotations

PREFIX = "BabyAI-"
OTHERWISE = 544  # for a level that is not listed: as many as the longest mazes get

_BY_STEPS = {
    32: """
    ActionObjDoor-v0 GoToDoor-v0 GoToLocal-v0 GoToLocalS5N2-v0 GoToLocalS6N2-v0 GoToLocalS6N3-v0 GoToLocalS6N4-v0
    GoToLocalS7N4-v0 GoToLocalS7N5-v0 GoToLocalS8N2-v0 GoToLocalS8N3-v0 GoToLocalS8N4-v0 GoToLocalS8N5-v0
    GoToLocalS8N6-v0 GoToLocalS8N7-v0 GoToObj-v0 GoToObjS4-v0 GoToObjS6-v1 GoToRedBallNoDists-v0 GoToRedBlueBall-v0
    OneRoomS8-v0 OpenDoor-v0 OpenDoorColor-v0 OpenDoorDebug-v0 OpenDoorLoc-v0 OpenRedDoor-v0 PickupDist-v0
    PickupDistDebug-v0 PickupLoc-v0 PutNextLocalS5N3-v0 PutNextLocalS6N4-v0 PutNextS4N1-v0 PutNextS5N2-v0
    PutNextS5N2Carrying-v0
    """,
    48: """
    GoToObjMazeS4R2-v0 GoToRedBall-v0 GoToRedBallGrey-v0 KeyCorridorS3R1-v0 OneRoomS12-v0 OpenDoorsOrderN2-v0
    OpenDoorsOrderN4-v0 OpenRedBlueDoors-v0 OpenRedBlueDoorsDebug-v0 OpenTwoDoors-v0 PutNextS5N1-v0
    PutNextS6N3Carrying-v0
    """,
    64: """
    GoToObjDoor-v0 GoToSeqS5R2-v0 MoveTwoAcrossS5N2-v0 OneRoomS16-v0 PutNextLocal-v0 PutNextS6N3-v0
    PutNextS7N4Carrying-v0 UnlockLocal-v0 UnlockPickup-v0
    """,
    80: """
    PutNextS7N4-v0
    """,
    96: """
    GoToObjMazeS4-v0
    """,
    112: """
    BlockedUnlockPickup-v0 PickupAbove-v0 UnlockLocalDist-v0
    """,
    128: """
    FindObjS5-v0
    """,
    144: """
    GoToObjMazeS5-v0 KeyCorridorS3R2-v0 MoveTwoAcrossS8N9-v0
    """,
    160: """
    UnlockPickupDist-v0
    """,
    176: """
    GoToObjMazeS6-v0 KeyCorridorS4R3-v0 OneRoomS20-v0
    """,
    192: """
    FindObjS6-v0 KeyCorridorS3R3-v0 MiniBossLevel-v0
    """,
    224: """
    KeyCorridorS5R3-v0
    """,
    240: """
    GoToObjMazeS7-v0
    """,
    256: """
    GoTo-v0 Pickup-v0
    """,
    288: """
    Open-v0
    """,
    304: """
    GoToObjMazeOpen-v0 KeyCorridor-v0 KeyCorridorS6R3-v0
    """,
    352: """
    FindObjS7-v0
    """,
    384: """
    GoToObjMaze-v0
    """,
    400: """
    GoToOpen-v0 UnblockPickup-v0
    """,
    432: """
    SynthS5R2-v0
    """,
    448: """
    SynthLoc-v0
    """,
    512: """
    Synth-v0
    """,
    528: """
    BossLevel-v0 BossLevelNoUnlock-v0 SynthSeq-v0 Unlock-v0
    """,
    544: """
    GoToSeq-v0
    """,
}

STEPS = {PREFIX + level: steps for steps, levels in _BY_STEPS.items() for level in levels.split()}
